/* A disk that fails, stops or keeps a diary, between a program and its files: LD_PRELOAD=disk.so

   DISK_UNDER   folders that count, separated by ':'; every call that changes something below one has a number, from 1
   DISK_LOG     a file that gets one line for each such call, and the bytes that were written, if DISK_BYTES is set
   DISK_AT      the number of the call at which something happens
   DISK_ERRNO   the error that it fails with; without one the process is killed there, in the middle of a write
   DISK_LASTS   if set, every later call fails too
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *under;
static long at, count;
static int error, lasts, bytes, diary = -1;

/* Called at the start, and again by a process that was forked and had its environment changed. */
__attribute__((constructor)) void disk_begin(void) {
    count = 0;
    const char *value;
    under = getenv("DISK_UNDER");
    at = (value = getenv("DISK_AT")) ? atol(value) : 0;
    error = (value = getenv("DISK_ERRNO")) ? atoi(value) : 0;
    lasts = getenv("DISK_LASTS") != NULL;
    bytes = getenv("DISK_BYTES") != NULL;
    if ((value = getenv("DISK_LOG")))
        diary = syscall(SYS_openat, AT_FDCWD, value, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int counts(const char *path) {
    for (const char *folder = under; folder && *folder;) {
        size_t length = strcspn(folder, ":");
        if (!strncmp(path, folder, length) && (path[length] == '/' || !path[length])) return 1;
        folder += length + (folder[length] == ':');
    }
    return 0;
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return counts(path);
}

static void all(const void *data, size_t size) {
    for (const char *rest = data; size;) {
        ssize_t done = syscall(SYS_write, diary, rest, size);
        if (done <= 0) return;
        rest += done, size -= done;
    }
}

/* What is to become of the next call: 0 it is made, 1 it fails, 2 it is the last. */
static int fate(void) {
    count++;
    if (!at || count < at || (count > at && !lasts)) return 0;
    if (!error) return 2;
    errno = error;
    return 1;
}

static void note(const char *what, const char *path, const char *other, long offset, const void *data, size_t size) {
    if (diary < 0) return;
    char line[2 * PATH_MAX + 100];
    int kept = errno;
    int length = snprintf(line, sizeof line, "%s\t%s\t%s\t%ld\t%zu\n", what, path, other, offset, size);
    all(line, length);
    if (bytes && data) all(data, size), all("\n", 1);
    errno = kept;
}

static void stop(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

static long size_of(int fd) {
    struct stat status;
    return fstat(fd, &status) ? 0 : (long)status.st_size;
}

#define REAL(name, type, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static ssize_t written(int fd, const void *data, size_t size, long offset, int placed) {
    REAL("pwrite", ssize_t, int, const void *, size_t, off_t);
    static ssize_t (*plain)(int, const void *, size_t);
    if (!plain) plain = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    char path[PATH_MAX];
    if (!path_of(fd, path)) return placed ? real(fd, data, size, offset) : plain(fd, data, size);
    pthread_mutex_lock(&lock);
    if (!placed) offset = fcntl(fd, F_GETFL) & O_APPEND ? size_of(fd) : lseek(fd, 0, SEEK_CUR);
    int what = fate();
    ssize_t done = -1;
    if (what != 1) done = placed ? real(fd, data, what ? size / 2 : size, offset) : plain(fd, data, what ? size / 2 : size);
    if (what == 2) stop();
    if (done >= 0) note("write", path, "", offset, data, done);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t write(int fd, const void *data, size_t size) { return written(fd, data, size, 0, 0); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return written(fd, data, size, offset, 1); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) { return written(fd, data, size, offset, 1); }

static int opened(const char *name, int folder, const char *path, int flags, mode_t mode) {
    int (*real)(int, const char *, int, ...) = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat64");
    (void)name;
    int changes = (flags & O_CREAT) || (flags & O_TRUNC) || (flags & O_ACCMODE) != O_RDONLY;
    if (!changes || path[0] != '/' || !counts(path)) return real(folder, path, flags, mode);
    pthread_mutex_lock(&lock);
    int there = !syscall(SYS_faccessat, AT_FDCWD, path, F_OK);
    int what = fate();
    int fd = -1;
    if (what == 2) stop();
    if (!what) fd = real(folder, path, flags, mode);
    if (fd >= 0) note(there ? "open" : "create", path, "", flags & O_TRUNC ? 0 : -1, NULL, 0);
    pthread_mutex_unlock(&lock);
    return fd;
}

#define OPENED(name, folder) \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more); \
    return opened(name, folder, path, flags, mode);

int open(const char *path, int flags, ...) { OPENED("open", AT_FDCWD) }
int open64(const char *path, int flags, ...) { OPENED("open64", AT_FDCWD) }
int openat(int folder, const char *path, int flags, ...) { OPENED("openat", folder) }
int openat64(int folder, const char *path, int flags, ...) { OPENED("openat64", folder) }

#define ON_FILE(name, result, label, offset, parameters, arguments) \
    result name parameters { \
        static result (*real) parameters; \
        if (!real) real = (result (*) parameters)dlsym(RTLD_NEXT, #name); \
        char path[PATH_MAX]; \
        if (!path_of(fd, path)) return real arguments; \
        pthread_mutex_lock(&lock); \
        int what = fate(); \
        result done = -1; \
        if (what == 2) stop(); \
        if (!what) done = real arguments; \
        if (!what && !done) note(label, path, "", offset, NULL, 0); \
        pthread_mutex_unlock(&lock); \
        return done; \
    }

ON_FILE(fsync, int, "sync", 0, (int fd), (fd))
ON_FILE(fdatasync, int, "sync", 0, (int fd), (fd))
ON_FILE(ftruncate, int, "truncate", (long)size, (int fd, off_t size), (fd, size))
ON_FILE(ftruncate64, int, "truncate", (long)size, (int fd, off64_t size), (fd, size))

#define ON_PATH(name, label, other, parameters, arguments) \
    int name parameters { \
        static int (*real) parameters; \
        if (!real) real = (int (*) parameters)dlsym(RTLD_NEXT, #name); \
        if (!counts(path)) return real arguments; \
        pthread_mutex_lock(&lock); \
        int what = fate(); \
        int done = -1; \
        if (what == 2) stop(); \
        if (!what) done = real arguments; \
        if (!what && !done) note(label, path, other, 0, NULL, 0); \
        pthread_mutex_unlock(&lock); \
        return done; \
    }

ON_PATH(rename, "rename", target, (const char *path, const char *target), (path, target))
ON_PATH(unlink, "unlink", "", (const char *path), (path))
ON_PATH(mkdir, "mkdir", "", (const char *path, mode_t mode), (path, mode))
