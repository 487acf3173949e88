"""Markdown → chunks, pure: one note's text in, its metadata, links and passages out.

A chunk is a slice of the note: whole lines, except that a line longer than the chunk size is cut into pieces.
It is longer than `size` characters only where it must not be divided: a fence stays whole up to 4 × size, and
headings or a short introduction (together up to size / 2) stay with the block that they introduce.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, takewhile
from operator import attrgetter
from typing import NamedTuple

from tars.frontmatter import Properties, date_in, date_of_name, properties, read_frontmatter, tags_in, unique

__all__ = ["VERSION", "Chunk", "Link", "Note", "date_of_name", "read_note"]

VERSION = 2  # part of the index's identity: bump it when the same note would give other chunks or another date
FENCE_LIMIT = 4  # a fence stays whole up to this many chunk sizes
MAX_HEADING = 200  # characters of a heading that go into the heading path

# Kinds of block; CUT is a piece of an overlong line.
HEADING, ITEM, FENCE, TEXT, CUT = "heading", "item", "fence", "text", "cut"

# No two repetitions in a row can match the same characters, so a failed match costs one pass over the line.
LINE = re.compile(
    r"(?P<blank>\s*\Z)"
    r"|[ ]{0,3}(?P<heading>\#{1,6})(?:\s|\Z)"
    r"|(?P<fence>\s*(?:`{3,}(?=[^`]*\Z)|~{3,}))"
    r"|(?P<item>\s*)(?:[-*+]|[0-9]{1,9}[.)])(?:\s|\Z)"
    r"|[ ]{0,3}(?P<underline>=+|-+)\s*\Z"
)
DATED_ITEM = re.compile(r"\s*\S{1,10}\s{1,9}(?:\[.\]\s{1,9})?(?:\*\*|__|\[\[)?([0-9]{4}-[0-9]{2}-[0-9]{2})(?![0-9])")
TAG = re.compile(r"(?<![^\s(])(?<!\]\()#(\w[\w/-]*)")
WIKILINK = re.compile(r"(!?)\[\[([^\[\]]+)\]\]")
FIELD = re.compile(r"\s*(?:[-*+]\s{1,9})?(?:\*\*)?(\w{1,40})(?:\*\*)?::\s(.*)")
PRIVATE = re.compile(r"<(/?)private(?:\s[^<>\n]{0,200})?>", re.IGNORECASE)
SENTENCE_END = re.compile(r"[.!?…][\"')\]”’*_]{0,3}\s|[。！？]")
SPACE = re.compile(r"\s")
NOT_SPACE = re.compile(r"\S")


@dataclass(frozen=True, slots=True)
class Link:
    """A wikilink `[[target#heading|alias]]` or embed `![[target]]`; no target means the note itself."""

    target: str
    heading: str
    alias: str
    embed: bool
    line: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a note, with the lines it came from (counted from 1)."""

    text: str
    start_line: int
    end_line: int
    heading: str
    date: str | None
    private: bool


@dataclass(frozen=True, slots=True)
class Note:
    """What a note says about itself, whom it links to, and its passages in order."""

    title: str | None
    date: str | None
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    keywords: tuple[str, ...]
    description: str
    author: str
    properties: str
    private: bool
    links: tuple[Link, ...]
    chunks: tuple[Chunk, ...]


class Block(NamedTuple):
    """Lines that belong together (indexes from 0, both included); level is a heading's."""

    kind: str
    first: int
    last: int
    level: int = 0


class Place(NamedTuple):
    """Where in the note a stretch of text stands: chunks are packed from one place."""

    section: int
    level: int
    path: tuple[str, ...]
    date: str | None
    private: bool


class Span(NamedTuple):
    """A stretch of the text: offsets start:end, on lines first..last."""

    start: int
    end: int
    first: int
    last: int
    kind: str
    place: Place


class Heading(NamedTuple):
    """A heading above the current line; the note's title has no name here, being no part of the path."""

    level: int
    name: str
    date: str | None
    private: bool


Mentions = tuple[tuple[str, ...], Properties, tuple[Link, ...]]


class Page(NamedTuple):
    """The text of a note, its lines, the offset of each, and which of them are inside <private>."""

    text: str
    lines: list[str]
    starts: list[int]
    hidden: bytearray


def read_note(text: str, *, size: int = 600) -> Note:
    """Read a note's metadata and divide its text into chunks of about `size` characters.

    Only a newline ends a line; a byte order mark is not part of the text. What stands inside <private> gives
    no title, tag, field or heading to the rest of the note.
    """
    text = text.removeprefix("\ufeff")
    front, body = read_frontmatter(text)
    page = _page(text)
    private = front.private or 1 in page.hidden[:body]
    if private:  # then nothing needs hiding from the rest
        page = page._replace(hidden=bytearray(len(page.lines)))
    blocks = list(find_blocks(page.lines, body))
    tags, fields, links = _mentions(page, blocks, body)
    private = private or fields.private
    h1 = _first_h1(page, blocks)
    title = front.title or h1
    if not blocks and front != Properties():
        blocks = [Block(TEXT, 0, body - 1)]
    spans = _spans(page, blocks, title if h1 == title else None, size)
    return Note(
        title=title,
        date=front.date or fields.date or date_in(h1 or ""),
        aliases=unique(front.aliases + fields.aliases),
        tags=unique(front.tags + fields.tags + tags),
        keywords=unique(front.keywords + fields.keywords),
        description=front.description,
        author=front.author,
        properties=front.other,
        private=private,
        links=links,
        chunks=tuple(_chunk(page, span, private) for span in _packed(spans, size)),
    )


def _page(text: str) -> Page:
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    hidden = bytearray(len(lines))
    if "<" in text:
        for start, end in _private_ranges(text):
            first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
            hidden[first : last + 1] = b"\1" * (last + 1 - first)
    return Page(text, lines, starts, hidden)


def _private_ranges(text: str) -> Iterator[tuple[int, int]]:
    """Offsets of what <private> encloses, tags included; what is not closed runs to the end of the note."""
    depth = start = 0
    for tag in PRIVATE.finditer(text):
        if not tag[1]:
            start = start if depth else tag.start()
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                yield start, tag.end()
    if depth:
        yield start, len(text)


# Lines → blocks


def find_blocks(lines: Sequence[str], at: int) -> Iterator[Block]:
    """The headings, list items, fences and paragraphs from line `at` on; tables and quotes are paragraphs."""
    kinds = [match.lastgroup if match else TEXT for match in map(LINE.match, lines)]
    in_list = False
    while at < len(lines):
        kind, line = kinds[at], lines[at]
        if kind == "blank":
            at += 1
            continue
        if kind == FENCE and not in_list and line.startswith(("    ", "\t")):
            kind = TEXT  # indented code that shows a fence
        if kind == HEADING:
            block = Block(HEADING, at, at, len(line) - len(line.lstrip().lstrip("#")) - _indent(line))
        elif kind == FENCE:
            block = Block(FENCE, at, _fence_end(lines, at))
        else:
            block = _paragraph(lines, kinds, at)
        in_list = block.kind == ITEM or (in_list and line[0].isspace())
        yield block
        at = block.last + 1


def _fence_end(lines: Sequence[str], at: int) -> int:
    """The last line of the fence opened at line `at`: its closing line or the end of the note."""
    opening = lines[at].lstrip()
    mark = opening[: len(opening) - len(opening.lstrip(opening[0]))]
    for last in range(at + 1, len(lines)):
        line = lines[last].strip()
        if line.startswith(mark) and not line.strip(mark[0]):
            return last
    last = len(lines) - 1
    while not lines[last].strip():
        last -= 1
    return last


def _paragraph(lines: Sequence[str], kinds: Sequence[str | None], at: int) -> Block:
    """The paragraph or list item that begins at line `at`, or the heading if the line is underlined."""
    end = at + 1
    if kinds[at] == TEXT and kinds[end : end + 1] == ["underline"] and _may_be_heading(lines[at]):
        return Block(HEADING, at, end, 1 if "=" in lines[end] else 2)
    while end < len(kinds) and kinds[end] in (TEXT, "underline"):
        end += 1
    return Block(ITEM if kinds[at] == ITEM else TEXT, at, end - 1)


def _may_be_heading(line: str) -> bool:
    return len(line) <= MAX_HEADING and line.lstrip()[0] not in ">|"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def heading_name(line: str) -> str:
    """The words of a heading line, without its marks.

    >>> heading_name("## **C#** ##")
    'C#'
    """
    name = line.strip()[: 2 * MAX_HEADING].lstrip("#").strip()
    bare = name.rstrip("#")
    if not bare or bare[-1].isspace():
        name = bare
    return name.strip("* \t")[:MAX_HEADING]


def _first_h1(page: Page, blocks: Iterable[Block]) -> str | None:
    at_top = (block.first for block in blocks if block.level == 1)
    names = (heading_name(page.lines[at]) for at in at_top if not page.hidden[at])
    return next(filter(None, names), None)


# What the lines mention


def _mentions(page: Page, blocks: Sequence[Block], body: int) -> Mentions:
    """The tags, `key:: value` fields and links of the note; fences and inline code mention nothing."""
    tags: list[str] = []
    fields: dict[str, list[str]] = {}
    links = [link for at in range(body) for link in _links(at, page.lines[at])]
    for kind, at in _promising_lines(page, blocks):
        line = _without_code(page.lines[at])
        links += _links(at, line)
        if kind != HEADING and not page.hidden[at]:
            tags += (tag for found in TAG.findall(line) if not found.isdecimal() for tag in tags_in(found))
            if field := FIELD.match(line):
                fields.setdefault(field[1].lower(), []).extend(field[2].split(","))
    return unique(tags), properties(fields) if fields else Properties(), tuple(links)


def _promising_lines(page: Page, blocks: Sequence[Block]) -> Iterator[tuple[str, int]]:
    """Kind of block and index of each line that may mention something; a note without any costs nothing."""
    hashes = sum(page.lines[block.first].count("#") for block in blocks if block.kind == HEADING)
    if "[[" not in page.text and "::" not in page.text and page.text.count("#") == hashes:
        return
    for kind, first, last, _ in blocks:
        if kind != FENCE:
            for at in range(first, last + 1):
                line = page.lines[at]
                if "#" in line or "[[" in line or "::" in line:
                    yield kind, at


def _links(at: int, line: str) -> Iterator[Link]:
    if "[[" not in line:
        return
    for mark, inner in WIKILINK.findall(line):
        place, _, alias = inner.partition("|")
        target, _, heading = place.rstrip("\\").partition("#")  # in a table the bar is written \|
        yield Link(target.strip(), heading.strip(), alias.strip(), mark == "!", at + 1)


def _without_code(line: str) -> str:
    """The line with its inline code blanked out: runs of backticks closed by a run of the same length."""
    if "`" not in line:
        return line
    parts = re.split("(`+)", line)
    closing = {len(ticks): at for at, ticks in enumerate(parts) if at % 2}
    at = 1
    while at < len(parts):
        length = len(parts[at])
        if closing[length] > at:
            end = next(i for i in range(at + 2, len(parts), 2) if len(parts[i]) == length)
            parts[at : end + 1] = [" "] + [""] * (end - at)
            at = end
        at += 2
    return "".join(parts)


# Blocks → spans


def _spans(page: Page, blocks: Iterable[Block], title: str | None, size: int) -> Iterator[Span]:
    """The stretches that packing must not divide, each knowing its place."""
    has_private = 1 in page.hidden
    above: list[Heading] = []
    places: dict[tuple[bool, str | None], Place] = {}
    section = level = indent = 0
    item_date = None
    for block in blocks:
        line = page.lines[block.first]
        if block.kind == HEADING:
            heading, title = _heading(page, block, title)
            above = [*(h for h in above if h.level < block.level), heading]
            section, level, item_date, places = section + 1, block.level, None, {}
        elif block.kind == ITEM:
            own, depth = DATED_ITEM.match(line), _indent(line)
            if own or depth <= indent:
                item_date, indent = date_in(own[1]) if own else None, depth
        elif not line[0].isspace():
            item_date = None
        for part in _parts(page, block) if has_private else (block,):
            private = has_private and bool(page.hidden[part.first])
            if (private, item_date) not in places:
                path, date = _seen(above, private)
                places[private, item_date] = Place(section, level, path, item_date or date, private)
            yield from _divided(page, part, places[private, item_date], size)


def _heading(page: Page, block: Block, title: str | None) -> tuple[Heading, str | None]:
    """The heading of a block, and the title still to be found (the title is no part of the path)."""
    name, private = heading_name(page.lines[block.first]), bool(page.hidden[block.first])
    if title and block.level == 1 and not private and name:
        return Heading(1, "", None, False), None
    return Heading(block.level, name, date_in(name), private), title


def _seen(above: Sequence[Heading], private: bool) -> tuple[tuple[str, ...], str | None]:
    """Heading path and date as private text may know them, or as the rest of the note does."""
    seen = [heading for heading in above if private or not heading.private]
    dates = [heading.date for heading in seen if heading.date]
    return tuple(heading.name for heading in seen if heading.name), dates[-1] if dates else None


def _parts(page: Page, block: Block) -> Iterator[Block]:
    """The block; if only some of its lines are private, its parts, without blank lines at their edges."""
    hidden = page.hidden[block.first : block.last + 1]
    if 0 not in hidden or 1 not in hidden:
        yield block
        return
    kind = TEXT if block.kind == FENCE else block.kind  # no longer whole, so it need not stay so
    for _, run in groupby(range(block.first, block.last + 1), key=page.hidden.__getitem__):
        filled = [at for at in run if page.lines[at].strip()]
        if filled:
            yield block._replace(kind=kind, first=filled[0], last=filled[-1])


def _divided(page: Page, block: Block, place: Place, size: int) -> Sequence[Span]:
    """The block as one span if it is short enough, else packed line by line."""
    start, end = page.starts[block.first], page.starts[block.last + 1] - 1
    if end - start <= (FENCE_LIMIT * size if block.kind == FENCE else size):
        return (Span(start, end, block.first, block.last, block.kind, place),)
    lines: list[Span] = []
    for at in range(block.first, block.last + 1):
        start, end = page.starts[at], page.starts[at + 1] - 1
        if end - start > size:
            lines += (Span(start + a, start + b, at, at, CUT, place) for a, b in _pieces(page.lines[at], size))
        elif page.lines[at].strip():
            lines.append(Span(start, end, at, at, TEXT, place))
    return [_joined(group) for group in _groups(lines, size)]


def _pieces(line: str, size: int) -> Iterator[tuple[int, int]]:
    """Cut a line at sentence ends, else at spaces, else anywhere, into pieces of about equal length."""
    at, end = _indent(line), len(line.rstrip())
    while end - at > size:
        count = -(-(end - at) // size)
        cut = at + _cut(line[at : at + size], -(-(end - at) // count))
        yield at, at + len(line[at:cut].rstrip())
        rest = NOT_SPACE.search(line, cut)
        at = rest.start() if rest else end
    if at < end:
        yield at, end


def _cut(window: str, goal: int) -> int:
    """Where to end a piece within the window: as near to the goal as the text allows."""
    for boundary in (SENTENCE_END, SPACE):
        ends = [match.end() for match in boundary.finditer(window) if 4 * match.end() >= len(window)]
        if ends:
            return min(ends, key=lambda end: abs(end - goal))
    return goal


# Spans → chunks


def _packed(spans: Iterable[Span], size: int) -> Iterator[Span]:
    """Pack each section's spans, then join small sections that follow each other."""
    held: Span | None = None
    held_is_small = False
    for _, section in groupby(_introduced(spans, size), key=attrgetter("place")):
        packed = [_joined(group) for group in _groups(list(section), size)]
        for span in packed:
            is_small = len(packed) == 1 and 3 * (span.end - span.start) < size
            if held and _may_join(held, held_is_small, span, is_small, size):
                held = held._replace(end=span.end, last=span.last, kind=TEXT, place=_shared(held, span))
                continue
            if held:
                yield held
            held, held_is_small = span, is_small
    if held:
        yield held


def _may_join(held: Span, held_is_small: bool, span: Span, is_small: bool, size: int) -> bool:
    """Whether the next section may share a chunk: both small, not leaving the first one's parent."""
    return (
        span.end - held.start <= size
        and CUT not in (held.kind, span.kind)
        and (held.place.date, held.place.private) == (span.place.date, span.place.private)
        and (span.kind == HEADING or (held_is_small and is_small and span.place.level >= held.place.level))
    )


def _introduced(spans: Iterable[Span], size: int) -> Iterator[Span]:
    """Join headings, and a short paragraph before a fence, to what they introduce."""
    lead: Span | None = None
    for span in spans:
        if lead and _introduces(lead, span, size):
            span = span._replace(start=lead.start, first=lead.first)
        elif lead:
            yield lead
        lead = span
    if lead:
        yield lead


def _introduces(lead: Span, span: Span, size: int) -> bool:
    """Whether one span stays with the next; a heading without a date takes that of what follows it."""
    if lead.kind == HEADING:
        same = lead.place.private == span.place.private and lead.place.date in (None, span.place.date)
    else:
        same = span.kind == FENCE and lead.kind in (TEXT, ITEM) and lead.place == span.place
    return same and 2 * (span.start - lead.start) <= size


def _groups(spans: Iterable[Span], size: int) -> list[list[Span]]:
    """Group neighbours up to `size` characters, and share what is left evenly between the last two groups.

    Only the last two: text appended to a note then leaves its earlier chunks, and their vectors, as they are.
    """
    groups: list[list[Span]] = []
    for span in spans:
        if groups and span.end - groups[-1][0].start <= size and CUT not in (groups[-1][-1].kind, span.kind):
            groups[-1].append(span)
        else:
            groups.append([span])
    if len(groups) > 1 and 4 * _length(groups[-1]) < size and CUT not in (groups[-2][-1].kind, groups[-1][0].kind):
        groups[-2:] = _halves(groups[-2] + groups[-1])
    return groups


def _length(group: Sequence[Span]) -> int:
    return group[-1].end - group[0].start


def _halves(group: Sequence[Span]) -> list[list[Span]]:
    """The group in two parts, the longer of them as short as can be."""

    def longer(at: int) -> int:
        return max(group[at - 1].end - group[0].start, group[-1].end - group[at].start)

    middle = min(range(1, len(group)), key=longer)
    return [list(group[:middle]), list(group[middle:])]


def _joined(group: Sequence[Span]) -> Span:
    """One span over the whole group."""
    if len(group) == 1:
        return group[0]
    return group[0]._replace(end=group[-1].end, last=group[-1].last, kind=TEXT)


def _shared(held: Span, span: Span) -> Place:
    """The place of two sections in one chunk: the common part of their paths; a bare heading adds no path."""
    if span.kind == HEADING:
        return held.place
    pairs = zip(held.place.path, span.place.path, strict=False)
    same = takewhile(lambda pair: pair[0] == pair[1], pairs)
    return held.place._replace(path=tuple(name for name, _ in same))


def _chunk(page: Page, span: Span, private: bool) -> Chunk:
    return Chunk(
        text=page.text[span.start : span.end],
        start_line=span.first + 1,
        end_line=span.last + 1,
        heading=" > ".join(span.place.path),
        date=span.place.date,
        private=private or span.place.private,
    )
