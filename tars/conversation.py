"""A conversation as a door sees it: question in, events out, with its memory, its transcript and its end."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tars import citations, memory, session_note, sessions
from tars.app import App
from tars.chat import Message, Notice, Provider, Usage
from tars.citations import Citation
from tars.context import STANDING_NOTES, Context, gather
from tars.core import Agent, AgentEvent, Answering, system_prompt
from tars.errors import ChatError, TarsError, redact
from tars.search.query import SearchResult
from tars.sessions import NoTranscript, Place, Session, Transcript
from tars.tools import NoTools, Toolbox
from tars.why import Searched, why

EXCERPT_CHARS = 400


@dataclass(slots=True)
class Talk:
    """One conversation, from its first message to its note."""

    session: Session
    transcript: Transcript
    tools: Toolbox | NoTools
    agent: Agent
    told: set[Place] = field(default_factory=set)  # which of the places shown are in the transcript

    @property
    def shown(self) -> dict[str, list[tuple[int, int]]]:
        """Which lines of which notes the model was shown."""
        places: dict[str, list[tuple[int, int]]] = {}
        for path, start, end in self.tools.shown:
            places.setdefault(path, []).append((start, end))
        return places

    def record(self, message: Message) -> None:
        """Keep a turn; before one that shows something, what it shows, so that a crash cannot part the two."""
        if self.tools.showed_private and not self.session.private:
            self.session.private = True
            self.transcript.private()
        self.transcript.showed([place for place in self.tools.shown if place not in self.told])
        self.told.update(self.tools.shown)
        self.transcript.record(message)

    def rewrite(self, messages: Sequence[Message]) -> None:
        """Go on from a summary."""
        self.session.messages = self.agent.messages
        self.session.begin_with(messages)
        self.agent.messages = self.session.messages
        self.transcript.compacted(messages)

    def take_back(self, count: int) -> None:
        """Go on from the first messages."""
        self.session.messages = self.agent.messages
        self.session.keep(count)
        self.transcript.kept(count)


class Conversation:
    """One memory, one model at a time, one transcript."""

    def __init__(
        self,
        app: App,
        provider: Provider,
        *,
        save: bool = True,
        use_memory: bool = True,
        session: Session | None = None,
    ) -> None:
        self.app, self.provider, self.save, self.use_memory = app, provider, save, use_memory
        self.talk: Talk | None = None  # none before the first message
        self._left: list[Talk] = []  # ended before this one, without a note yet
        self._forgotten: list[str] = []
        self._earlier_usage = Usage()
        if session:
            self._go_on(session)

    # ---- what the doors show

    @property
    def model(self) -> str:
        return self.provider.name

    @property
    def folder(self) -> Path:
        return self.app.config.memory_dir

    @property
    def session(self) -> Session | None:
        return self.talk.session if self.talk else None

    @property
    def usage(self) -> Usage:
        return self._earlier_usage + (self.talk.agent.usage if self.talk else Usage())

    @property
    def memories(self) -> int:
        return len(self.results())

    @property
    def _memory(self) -> str:
        return str(self.app.config.memory_dir)

    @property
    def _folder(self) -> Path:
        return self.app.config.places.state / "sessions"

    @property
    def _messages(self) -> Sequence[Message]:
        return self.talk.agent.messages if self.talk else ()

    def results(self) -> list[SearchResult]:
        """Every passage that was found for this conversation, once."""
        found = [result for searched in self._searches for result in searched.results]
        return list({result.chunk_rowid: result for result in found}.values())

    @property
    def _searches(self) -> Sequence[Searched]:
        return self.talk.tools.searches if self.talk else ()

    # ---- asking

    def ask(self, text: str) -> Answering:
        talk = self.talk or (yield from self._start(text))
        known = len(talk.tools.forgotten)
        try:
            with closing(talk.agent.ask(text)) as answering:
                yield from answering
            self._record_use()
        finally:
            self._forgotten += talk.tools.forgotten[known:]
            self._clean_transcripts()

    def _record_use(self) -> None:
        """Count what the answer cites, for later rankings: what was only found was not used."""
        if not (self.save and self.use_memory):
            return
        cited = [true for found in citations.find(self.last_answer()) if (true := self.cited(found))]
        used = [
            result
            for result in self.results()
            if any(
                c.path == result.file_path and c.start <= result.end_line and result.start_line <= c.end for c in cited
            )
        ]
        if used:
            self.app.record_use(used)

    def _clean_transcripts(self) -> None:
        """What was forgotten is in earlier conversations too, and whoever is told to forget likes to repeat it."""
        if self.save and self._forgotten:
            sessions.forget(self._folder.glob("*.jsonl"), self._forgotten)

    def retry(self) -> Answering:
        """Ask the last message again; what was answered is dropped."""
        question = self.last_question()
        if not self.talk or not question:
            raise TarsError("there is nothing to ask again yet")
        self.talk.take_back(max(at for at, message in enumerate(self._messages) if message.role == "user"))
        yield from self.ask(question)

    def last_question(self) -> str:
        return next((m.text for m in reversed(self._messages) if m.role == "user"), "")

    def last_answer(self) -> str:
        return next((m.text for m in reversed(self._messages) if m.role == "assistant" and m.text), "")

    # ---- beginning and going on

    def _start(self, text: str) -> Generator[AgentEvent, None, Talk]:
        """Search once, with the first message, and build the prompt that stays the same from then on."""
        provider, now = self.provider, self.app.now()
        context = Context()
        tools = self.use_memory and provider.uses_tools
        if self.use_memory:
            context = gather(
                self.app, text, context_tokens=provider.context_tokens, leaves_machine=provider.leaves_machine
            )
        yield from map(Notice, context.notices)
        system = system_prompt(
            today=now.date(),
            standing=context.standing,
            passages=context.passages,
            tools=tools,
            memory=self.use_memory,
        )
        session = Session("", self.model, system, now.isoformat(timespec="seconds"), memory=self._memory)
        session.shown, session.private = context.places, context.private
        session.id = sessions.new_id(now, self._folder) if self.save else ""
        talk = self._talk(session)
        talk.tools.searches += [context.searched] if context.searched else []
        talk.transcript.start(session)
        self.talk = talk
        return talk

    def _go_on(self, session: Session) -> None:
        """Take up a conversation that was kept."""
        self._refuse_private(self.provider, session)
        self.talk = self._talk(session)
        if session.model != self.model:
            session.model = self.model
            self.talk.transcript.model(self.model)

    def _talk(self, session: Session) -> Talk:
        transcript = Transcript(self._folder / f"{session.id}.jsonl") if self.save else NoTranscript()
        tools = Toolbox(self.app, leaves_machine=self.provider.leaves_machine) if self.use_memory else NoTools()
        tools.shown += session.shown
        agent = Agent(self.provider, tools, session.system, session.messages, make_room=self._make_room)
        talk = Talk(session, transcript, tools, agent, told=set(tools.shown))
        agent.record, agent.partial = talk.record, transcript.partial
        return talk

    def _refuse_private(self, provider: Provider, session: Session) -> None:
        if provider.leaves_machine and session.private:
            raise TarsError("this conversation has read private passages, which must not leave the machine;"
                            f" start a new one to use {provider.name}")  # fmt: skip

    # ---- a summary in place of the beginning

    def _make_room(self, must: bool) -> Generator[AgentEvent, None, bool]:
        """Before the model's context is full, or when it turned out to be: whether there is more room now."""
        assert self.talk is not None
        agent = self.talk.agent
        if not must and not sessions.nearly_full(agent.provider, agent.system, agent.messages):
            return False
        kept_turns = 1 if must else sessions.KEPT_TURNS
        cut = sessions.compaction_cut(
            agent.messages, context_tokens=agent.provider.context_tokens, kept_turns=kept_turns
        )
        if not cut:
            return False
        yield Notice("the conversation is long; summarising its beginning")
        summary = yield from self._summary(agent, agent.messages[:cut])
        self.talk.rewrite(sessions.compacted(summary, agent.messages[cut:]))
        return True

    def _summary(self, agent: Agent, messages: Sequence[Message]) -> Generator[AgentEvent, None, str]:
        """By the model, or by leaving out all that it said itself."""
        text = ""
        if agent.provider.name != "recall":
            try:
                text = yield from sessions.asked_aside(agent.provider, agent.system, messages, sessions.SUMMARISE)
            except ChatError as error:
                yield Notice(f"no summary ({error}); keeping what you said")
        return text or sessions.what_the_person_said(messages)

    # ---- what the person asks of the conversation itself

    def cited(self, citation: Citation) -> Citation | None:
        return citations.resolve(citation, self.shown())

    def shown(self) -> dict[str, list[tuple[int, int]]]:
        return self.talk.shown if self.talk else {}

    def citations(self) -> list[dict[str, object]]:
        """The citations of the last answer, and whether the model was shown what they name."""
        checked = citations.check(citations.find(self.last_answer()), self.shown())
        return [{"path": c.path, "start_line": c.start, "end_line": c.end, "shown": true} for c, true in checked]

    def untrue_citations(self) -> list[str]:
        """Those of the last answer that name what the model was never shown."""
        checked = citations.check(citations.find(self.last_answer()), self.shown())
        return list(dict.fromkeys(str(citation) for citation, true in checked if not true))

    def why(self, which: str = "") -> str:
        """What was shown for the first message and by the last search of the model; or one passage in full."""
        standing = [path for path in STANDING_NOTES if path in self.shown()]
        first = [searched for searched in self._searches if searched.first]
        last = [searched for searched in self._searches if not searched.first][-1:]
        if first or last:
            return why([*first, *last], standing=standing, which=which)
        if self.talk and self.talk.tools.shown:
            places = ", ".join(f"{path}:{start}-{end}" for path, start, end in self.talk.tools.shown)
            return (
                f"This conversation goes on from an earlier one, whose searches are not kept. It was shown: {places}."
            )
        return "No memory was used in this conversation."

    def search(self, query: str) -> str:
        outcome = self.app.search(query)
        if outcome.empty_reason:
            return f"Nothing found: {outcome.empty_reason.message}"
        return "\n\n".join(
            f"**{r.file_path}:{r.start_line}-{r.end_line}** {r.file_title}\n{r.content.strip()[:EXCERPT_CHARS]}"
            for r in outcome.results
        )

    def remember(self, fact: str) -> str:
        written = self.app.remember(fact)
        return f"{written.path}:{written.line} {written.text}"

    def forget(self, text: str) -> str:
        written = self.app.forget(text)
        self._forgotten.append(written.text)
        self._clean_transcripts()
        return f"forgotten: {written.text} ({written.path}:{written.line})"

    def memory(self) -> str:
        counts = self.app.store.counts()
        return f"{self.app.note_text('Memory.md').strip()}\n\n{counts['notes']} notes in {self.folder}"

    def models(self) -> list[str]:
        return self.app.models

    def set_model(self, name: str) -> None:
        provider = self.app.provider(name)
        if not self.talk:
            self.provider = provider
            return
        before, usage = self.talk, self.usage
        self._refuse_private(provider, before.session)
        before.session.messages, before.session.shown = before.agent.messages, list(before.tools.shown)
        self.provider, self._earlier_usage = provider, usage
        self._go_on(before.session)
        self.talk.tools.searches += before.tools.searches

    def sessions(self) -> list[tuple[str, str]]:
        found = sessions.list_sessions(self._folder, memory=self._memory)
        return [(session.id, session.first_words) for session in found]

    def resume(self, session_id: str) -> None:
        session = sessions.find_session(self._folder, session_id, memory=self._memory)
        self._refuse_private(self.provider, session)
        self.clear()
        # Among those left there may be this very one; its note is written when it ends at last.
        self._left = [talk for talk in self._left if talk.session.id != session.id]
        self._go_on(session)

    def clear(self) -> None:
        self._earlier_usage = self.usage
        if self.talk:
            self._left.append(self.talk)
        self.talk = None

    def index(self) -> str:
        report = self.app.build()
        if report is None:
            return "Another process is indexing."
        return f"{report.indexed} notes indexed, {report.unchanged} unchanged, {report.removed} removed."

    def note_paths(self) -> list[str]:
        return self.app.note_paths()

    def idle(self, stopped: Callable[[], bool]) -> None:
        if self.use_memory:
            self.app.idle(stopped)

    # ---- the end

    def close(self) -> Answering:
        """Remember each conversation as a note, without repeating what came from the notes."""
        talks = [*self._left, *([self.talk] if self.talk else [])]
        self._left = []
        if self.save and self.use_memory:
            for talk in talks:
                yield from self._remember(talk)

    def _remember(self, talk: Talk) -> Answering:
        messages = talk.agent.messages[talk.session.noted :]
        if not any(message.role == "user" for message in messages):
            return
        points, by_model = yield from self._points(talk.agent, messages)
        lines = session_note.worth_keeping(
            points,
            quoted="\n".join([talk.session.system, session_note.quoted_in(messages), self._shown_text(talk)]),
            forgotten=self._forgotten,
        )
        lines = [redact(line) for line in lines]
        note = None
        if lines:
            try:
                note = self._write_note(talk, messages, lines, by_model=by_model)
                yield Notice(f"remembered as {note}")
            except TarsError as error:
                yield Notice(f"the conversation is kept, but not as a note: {error}")
        talk.session.noted = len(talk.agent.messages)
        talk.transcript.ended(note)

    def _points(self, agent: Agent, messages: Sequence[Message]) -> Generator[AgentEvent, None, tuple[list[str], bool]]:
        """What may be worth keeping, and whether a model put it into words."""
        if agent.provider.name != "recall":
            yield Notice("writing the note of this conversation")
            try:
                request = session_note.REQUEST
                text = yield from sessions.asked_aside(agent.provider, agent.system, messages, request)
                return session_note.points(text), True
            except ChatError as error:
                yield Notice(f"no summary ({error}); keeping what you said")
        return session_note.statements(messages), False

    def _shown_text(self, talk: Talk) -> str:
        """What stands where the model was shown something; some of it may be gone from the history."""
        texts = {path: self.app.note_text(path).split("\n") for path, _, _ in talk.tools.shown}
        return "\n".join("\n".join(texts[path][start - 1 : end]) for path, start, end in talk.tools.shown)

    def _write_note(self, talk: Talk, messages: Sequence[Message], lines: Sequence[str], *, by_model: bool) -> str:
        """After private text a model's words are private. The person's are not; then no source may be, either."""
        now = self.app.now()
        private = by_model and talk.session.private
        answers = "\n".join(message.text for message in messages if message.role == "assistant")
        cited = [c for c, true in citations.check(citations.find(answers), talk.shown) if true]
        sources = sorted({str(c) for c in cited if private or not self._is_private(c)})
        text = session_note.note_text(talk.session.id, lines, sources, now, private=private)
        name = self._free_name(session_note.name_of(lines, now))
        self.app.write_new(name, text)
        return name

    def _is_private(self, citation: Citation) -> bool:
        hidden = memory.private_lines(self.app.note_text(citation.path))
        return not hidden.isdisjoint(range(citation.start, citation.end + 1))

    def _free_name(self, base: str) -> str:
        numbered = (f"{base}{f'-{number}' if number > 1 else ''}.md" for number in range(1, 1000))
        return next(name for name in numbered if not (self.folder / name).exists())
