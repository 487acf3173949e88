"""A folder of linked notes with questions, for stages that need links: `links`, `communities`.

    python tests/bench/linked.py DIR [--seed 0]
    tars bench DIR --ablate --stages links communities

Somebody's undertakings, each with a main note, the people, places, tools and suppliers it has to do with (a note
each), and a log. Only links hold them together: the note of an architect does not say whose architect she is, and a
log entry does not say what it is about. The kinds of questions:

    linked    "When can I ring the architect of the kitchen extension?": the words lead to the main note, the answer
              stands in the note that it links to, and every other person's note speaks of ringing too
    log       "How much was the deposit for the kitchen extension?": the answer is in a log entry of that undertaking,
              among the like entries of the others
    named     "When can I ring Margit Oravecz?": the note is named; links should not get in the way
    plain     "Why did we put off the kitchen extension?": the answer stands in the main note itself

The same seed gives the same bytes.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from random import Random

FIRST_DAY = date(2025, 1, 6)

# Undertaking, what it is for, why it was put off, and who and what it has to do with: a role for each kind of note.
UNDERTAKINGS: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    ("Kitchen extension", "room for a table that seats eight", "the party wall was older than the drawings say",
     {"people": "architect", "places": "stone yard", "tools": "wet saw", "suppliers": "window maker"}),
    ("Spring concert", "an evening of Schütz and Purcell", "two basses moved away in the same month",
     {"people": "accompanist", "places": "venue", "tools": "chamber organ", "suppliers": "printer of the programmes"}),
    ("Narrowboat refit", "a cabin that can be lived in over winter", "the surveyor found rust at the waterline",
     {"people": "welder", "places": "dry dock", "tools": "bilge pump", "suppliers": "chandler"}),
    ("Village archive", "the parish papers in acid-free boxes", "the damp had got into the tithe maps",
     {"people": "paper conservator", "places": "reading room", "tools": "book scanner", "suppliers": "box maker"}),
    ("Beehives", "honey for the family and a little to sell", "the first swarm left before the second box came",
     {"people": "bee inspector", "places": "apiary", "tools": "honey extractor", "suppliers": "queen breeder"}),
    ("School fair", "a new climbing frame in the yard", "the date fell on the day of the marathon",
     {"people": "treasurer", "places": "rain location", "tools": "tombola drum", "suppliers": "tent hire"}),
    ("Garden pond", "frogs, and something to sit beside", "the liner arrived with a tear in it",
     {"people": "digger driver", "places": "spoil heap", "tools": "pond vacuum", "suppliers": "water plant nursery"}),
    ("Violin repair", "grandfather's violin playable again", "the crack ran under the bass bar",
     {"people": "luthier", "places": "tonewood store", "tools": "bending iron", "suppliers": "string maker"}),
    ("Pottery course", "eight evenings at the wheel for beginners", "the kiln tripped the mains twice",
     {"people": "glaze chemist", "places": "studio", "tools": "pug mill", "suppliers": "clay merchant"}),
    ("Cycling tour", "Ghent to Basel along the rivers", "the ferry was booked out until June",
     {"people": "route planner", "places": "halfway hostel", "tools": "trailer", "suppliers": "wheel builder"}),
    ("Film club", "twelve silent films with live music", "the licence for the first film took a quarter of a year",
     {"people": "projectionist", "places": "cinema", "tools": "projector", "suppliers": "film lender"}),
    ("Bread round", "forty loaves for the street on Saturdays", "the oven needed a new floor",
     {"people": "food inspector", "places": "mill", "tools": "dough mixer", "suppliers": "flour merchant"}),
    ("Peat survey", "cores from all six bogs before the summer", "the access track was under water until May",
     {"people": "field assistant", "places": "base camp", "tools": "Russian corer", "suppliers": "sample lab"}),
    ("Orchard plan", "old kinds of apple on the slope behind the barn", "the deer ate the first twenty whips",
     {"people": "pruning teacher", "places": "scion bank", "tools": "post driver", "suppliers": "tree nursery"}),
    ("Radio play", "six parts of fifteen minutes for local radio", "the lead lost her voice in rehearsals",
     {"people": "sound engineer", "places": "recording room", "tools": "wind machine", "suppliers": "costume hire"}),
    ("Family history", "four generations before the reunion in August", "the register of 1871 has burned",
     {"people": "genealogist", "places": "record office", "tools": "slide scanner", "suppliers": "bookbinder"}),
)  # fmt: skip

FIRST_NAMES = """Margit Anselm Ottilie Bram Ilse Corwin Delphine Edda Farid Greta Hamish Imke Jorun Kasimir Leonie
    Matteo Nuala Oskar Philippa Quentin Rosalind Severin Tamsin Ulrike Vaughan Winifred""".split()
LAST_NAMES = """Oravecz Pemberton Lindqvist Okonjo Vasquez Trelawny Brandauer Castellan Dunmore Eskelinen Fairweather
    Grünwald Hathersage Iversen Jellinek Kirkbride Lovelock Marchetti Northcott Ostrander""".split()
PLACE_NAMES = """Quarry Weir Chapel Foundry Tannery Rectory Granary Station Abbey Harbour Mill Priory Customs Lantern
    Dovecote Tollgate""".split()
TOOL_MAKERS = """Brunel Halcyon Merkur Petrel Vulcan Ardent Kestrel Solent Tornio Zephyr Corvus Dalby Elgin Fjord Garnet
    Hekla""".split()
FIRM_NAMES = """Ashdown Bellweather Crossley Drummond Ellery Foxglove Gillespie Harcourt Inkpen Jessop Kettlewell
    Lambourn Merriman Nettleton Osgood Pargeter""".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday".split()
STREETS = "Crown Street, Mill Lane, Tanner's Row, Station Road, Bridge End, Cross Hill, Well Walk, Salt Quay".split(
    ", "
)

# Per kind of note: the sentences that answer (three ways to say each), and what is asked about whom.
FACTS: dict[str, tuple[tuple[tuple[str, ...], str], ...]] = {
    "people": (
        (("Best rung between {hour} and {later}, never on a {day}.", "Picks up the phone from {hour} to {later}; not on a {day}.",
          "Ring between {hour} and {later}, but leave {day} alone."), "When can I ring {who}?"),
        (("Works from a room above the bakery in {street}.", "Has an office in {street}, second bell from the top.",
          "To be found in {street}, in the yard behind the chemist."), "Where is the office of {who}?"),
        (("Charges {price} an hour and wants it in cash.", "Asks {price} an hour, with the travel on top.",
          "The rate is {price} an hour, less on long jobs."), "What does {who} charge?"),
    ),
    "places": (
        (("The key hangs with the neighbour at number {number}.", "For the key ask at number {number} across the road.",
          "The key lies in a box with the code {number}."), "How do I get the key to {who}?"),
        (("Open from {hour} to {later}, shut on {day}.", "One gets in from {hour} until {later}, and on {day} not at all.",
          "Opening hours are {hour} to {later}; closed all {day}."), "When is {who} open?"),
        (("Park in {street}, the yard is for lorries.", "There is room for the car in {street}, free after six.",
          "Leave the car in {street}, it is a short walk."), "Where do I park at {who}?"),
    ),
    "tools": (
        (("It stands in the shed, on the shelf with the number {number}.", "Kept in the cellar, bay {number}, under a sheet.",
          "Lives in the loft behind box {number}."), "Where is {who} kept?"),
        (("The fuse is one of {price} milliamperes, slow.", "Blows its fuse in the cold: {price} milliamperes, slow.",
          "Takes a slow fuse of {price} milliamperes."), "Which fuse does {who} take?"),
        (("To be oiled every {number} hours.", "Wants a drop of oil after each {number} hours of work.",
          "Oil it once in {number} hours, no more."), "How often is {who} oiled?"),
    ),
    "suppliers": (
        (("They deliver on {day}, before {hour}.", "The van comes on {day} mornings, by {hour}.",
          "Deliveries only on {day}, at {hour} at the latest."), "On which day does {who} deliver?"),
        (("Our customer number is {number}-{price}.", "We are customer {number}-{price} in their books.",
          "They know us as number {number}-{price}."), "What is our customer number at {who}?"),
        (("From {price} pounds on there is a discount of {number} per cent.", "They take off {number} per cent above {price} pounds.",
          "A discount of {number} per cent for orders over {price} pounds."), "From what sum on does {who} give a discount?"),
    ),
}  # fmt: skip
PASTIMES = (
    "keeps whippets", "sings tenor in another choir", "swears by oat milk", "collects railway lamps",
    "is writing about lighthouses", "swims in the river all year", "repairs clocks for friends", "grew up above a pub",
    "never travels without a thermos", "has a sister in Ghent", "plays chess by post", "has walked to Santiago twice",
)  # fmt: skip
REMARKS = (
    "Worth knowing before the next visit.", "Written down because I forget it each time.",
    "Came recommended by a friend of a friend.", "There is a paper copy in the blue folder.",
    "To be checked again next year.", "Not the cheapest, but it has always worked out.",
    "First heard of at the Sunday market.", "The old note about this is out of date.",
    "We found that out the hard way, in the middle of the worst week of the year.",
    "Last time there was a misunderstanding about it, so it is better to ask twice.",
    "That has been so for as long as anybody can remember, and it will not change for us.",
    "If it should ever change, the postcard on the fridge door is the first thing to correct.",
    "Nobody else seems to mind, but it has cost us two afternoons already.",
    "The neighbours tell it differently, and they have been wrong before.",
)  # fmt: skip
LOG_FACTS: tuple[tuple[str, str], ...] = (
    ("Paid the deposit of {price} pounds today and got a receipt.", "How much was the deposit for the {topic}?"),
    (
        "Counted again: we need {number} more volunteers than we have.",
        "How many volunteers are still missing for the {topic}?",
    ),
    (
        "The insurance wants the form back by {day}, with two signatures.",
        "When is the insurance form for the {topic} due?",
    ),
    (
        "The permit came, with the file number {number}/{price}.",
        "What is the file number of the permit for the {topic}?",
    ),
)
LOG_SMALL_TALK = (
    "Rain until noon, then bright. Lost an hour looking for the tape measure, which was in the other coat.",
    "Long telephone calls, little done. Soup in the evening, and early to bed for once.",
    "A good day: everybody came, nobody was late, and there was cake left at the end of it.",
    "Cold hands. Bought gloves on the way home, the thick ones, and a torch for the dark corner.",
    "Started late because of the roadworks by the station. The bus driver knew a better way than the map.",
    "Wrote the minutes up and sent them round. Two people answered, one of them about something else.",
    "Sat down with the list and crossed out what will never happen. It is a shorter list now.",
    "Visitors in the afternoon, who wanted to see everything and touched most of it.",
)


@dataclass(frozen=True, slots=True)
class Entity:
    """A person, place, tool or supplier of one undertaking."""

    kind: str
    role: str
    name: str
    lines: tuple[str, ...]  # the note, line by line
    answers: tuple[tuple[str, int], ...]  # the question, with {who} open, and the line that answers it

    @property
    def path(self) -> str:
        return f"{self.kind}/{self.name}.md"


def write_folder(folder: Path, seed: int = 0) -> tuple[int, int]:
    """Write the notes and their questions; how many there are of each."""
    notes: dict[str, Sequence[str]] = {}
    asked: list[dict[str, object]] = []
    names = names_for(Random(f"names:{seed}"))
    for number, undertaking in enumerate(UNDERTAKINGS):
        rng = Random(f"undertaking:{seed}:{number}")
        for path, lines, questions in chapter(rng, number, undertaking, names):
            notes[path] = lines
            asked += questions
    for path, lines in notes.items():
        file = folder / "memory" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = [json.dumps({"id": f"q{at:03}", **question}, ensure_ascii=False) for at, question in enumerate(asked)]
    (folder / "questions.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return len(notes), len(asked)


def names_for(rng: Random) -> dict[str, list[str]]:
    """A name for each undertaking and kind, none twice."""
    people = [
        f"{first} {last}" for first, last in zip(shuffled(rng, FIRST_NAMES), shuffled(rng, LAST_NAMES), strict=False)
    ]
    houses = [f"{name} {rng.choice(['House', 'Hall', 'Barn', 'Yard'])}" for name in shuffled(rng, PLACE_NAMES)]
    tools = [f"{name} {rng.randint(2, 9)}00" for name in shuffled(rng, TOOL_MAKERS)]
    firms = [f"{name} & {rng.choice(['Sons', 'Daughters', 'Co'])}" for name in shuffled(rng, FIRM_NAMES)]
    return {"people": people, "places": houses, "tools": tools, "suppliers": firms}


def shuffled(rng: Random, items: Sequence[str]) -> list[str]:
    return rng.sample(items, len(items))


Written = tuple[str, Sequence[str], list[dict[str, object]]]  # path, lines, questions


def chapter(
    rng: Random, number: int, undertaking: tuple[str, str, str, dict[str, str]], names: dict[str, list[str]]
) -> Iterator[Written]:
    """All notes of one undertaking, with what is asked about them."""
    topic, aim, delay, roles = undertaking
    entities = [entity(rng, kind, role, names[kind][number]) for kind, role in roles.items()]
    days = [FIRST_DAY + timedelta(days=rng.randrange(400)) for _ in LOG_FACTS]
    logs = [f"log/{day}-{'abcdefghijklmnop'[number]}{at}" for at, day in enumerate(days)]
    yield main_note(rng, topic, aim, delay, entities, logs)
    for each in entities:
        spoken = f"the {each.role} of the {topic[0].lower()}{topic[1:]}"
        linked = [question(ask.format(who=spoken), "linked", each.path, line) for ask, line in each.answers]
        named = [question(ask.format(who=each.name), "named", each.path, line) for ask, line in each.answers[:1]]
        yield each.path, each.lines, linked + named
    for path, day, (fact, ask) in zip(logs, days, LOG_FACTS, strict=True):
        yield log_note(rng, f"{path}.md", day, fact, ask.format(topic=topic.lower()))


def main_note(
    rng: Random, topic: str, aim: str, delay: str, entities: Sequence[Entity], logs: Sequence[str]
) -> Written:
    path = f"projects/{slug(topic)}.md"
    mentions = (
        "The {role} is [[{name}]], found after a long search.",
        "As {role} we have settled on [[{name}]].",
        "For the {role} see [[{name}]].",
        "[[{name}]] is our {role} for now.",
    )
    lines = [
        f"# {topic}", "", f"What it is for: {aim}.", "",
        f"It was put off for some weeks because {delay}. Since then it has gone better than we feared.", "",
        "## Who and what", "",
        *(f"- {rng.choice(mentions).format(role=e.role, name=e.name)}" for e in entities), "",
        "## Log", "", *(f"- [[{Path(log).name}]]" for log in logs),
    ]  # fmt: skip
    questions = [
        question(f"Why was the {topic.lower()} put off?", "plain", path, 5),
        question(f"What is the {topic.lower()} for?", "plain", path, 3),
    ]
    return path, lines, questions


def entity(rng: Random, kind: str, role: str, name: str) -> Entity:
    """A note that answers three questions and does not say what undertaking it belongs to."""
    lines = [f"# {name}", ""]
    if kind == "people":
        lines += [f"{name.split()[0]} {rng.choice(PASTIMES)}.", ""]
    answers = []
    for ways, ask in FACTS[kind]:
        lines += [" ".join([rng.choice(ways).format(**particulars(rng)), *rng.sample(REMARKS, 3)]), ""]
        answers.append((ask, len(lines) - 1))
    return Entity(kind, role, name, tuple(lines[:-1]), tuple(answers))


def log_note(rng: Random, path: str, day: date, fact: str, ask: str) -> Written:
    talk = rng.sample(LOG_SMALL_TALK, 6)
    lines = [f"# {day:%A}, {day.day} {day:%B %Y}", "", " ".join(talk[:3]), ""]
    lines += [fact.format(**particulars(rng)), "", " ".join(talk[3:])]
    return path, lines, [question(ask, "log", path, 5)]


def particulars(rng: Random) -> dict[str, object]:
    hour = rng.randint(7, 11)
    return {
        "hour": f"{hour} o'clock",
        "later": f"{hour + rng.randint(2, 6)} o'clock",
        "day": rng.choice(DAYS),
        "street": rng.choice(STREETS),
        "price": rng.randint(12, 95) * 10,
        "number": rng.randint(4, 60),
    }


def question(text: str, category: str, path: str, line: int) -> dict[str, object]:
    evidence = [{"path": path, "start_line": line, "end_line": line}]
    return {"query": text, "category": category, "as_of": None, "adversarial": False, "evidence": evidence}


def slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a folder of linked notes with questions.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    notes, questions = write_folder(args.folder, args.seed)
    print(f"{notes} notes and {questions} questions in {args.folder}")


if __name__ == "__main__":
    main()
