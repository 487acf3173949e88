"""A conversation as a door sees it: question in, events out, with its memory, its transcript and its end."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

from tars import citations, sessions
from tars.app import App
from tars.chat import Message, Notice, Provider, Text, Usage
from tars.citations import Citation
from tars.core import Agent, AgentEvent, Answering, ShownPassage, fit_passages, system_prompt
from tars.errors import TarsError
from tars.notes import public_text
from tars.search.explain import explain
from tars.search.query import SearchResult
from tars.sessions import NoTranscript, Session, Transcript
from tars.tools import NoTools, Toolbox

STANDING_NOTES = ("Memory.md", "Procedural.md")
CONTEXT_PASSAGES = 12
CONTEXT_SHARE = 0.1  # of the model's context, for what is found for the first message
MOST_CONTEXT_TOKENS = 6_000
MOST_STANDING_CHARS = 20_000
EXCERPT_CHARS = 400


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
        self._earlier_usage = Usage()
        self._begin(session)

    def _begin(self, session: Session | None = None) -> None:
        """A conversation that is new or goes on; the prompt of a new one is built from its first message."""
        self.session = session
        self.found: list[SearchResult] = []
        self.agent: Agent | None = None
        if session:
            self._refuse_private(self.provider, session)
            self.transcript = self._transcript(session)
            self._make_agent(session)

    # ---- what the doors show

    @property
    def model(self) -> str:
        return self.provider.name

    @property
    def folder(self) -> Path:
        return self.app.config.memory_dir

    @property
    def usage(self) -> Usage:
        return self._earlier_usage + (self.agent.usage if self.agent else Usage())

    @property
    def memories(self) -> int:
        return len(self.results())

    @property
    def _folder(self) -> Path:
        return self.app.config.places.state / "sessions"

    def results(self) -> list[SearchResult]:
        """Every passage that was found for this conversation, once."""
        searched = self.tools.results if self.agent else []
        return list({result.chunk_rowid: result for result in [*self.found, *searched]}.values())

    # ---- asking

    def ask(self, text: str) -> Answering:
        if self.agent is None:
            yield from self._start(text)
        agent = self.agent
        assert agent is not None
        yield from self._compact(agent)
        known = list(self.tools.shown)
        try:
            yield from agent.ask(text)
        finally:
            self.transcript.showed([place for place in self.tools.shown if place not in known])
            if self.tools.showed_private and self.session and not self.session.private:
                self.session.private = True
                self.transcript.private()

    def retry(self) -> Answering:
        """Ask the last message again; what was answered is dropped."""
        question = self.last_question()
        if not self.agent or not question:
            raise TarsError("there is nothing to ask again yet")
        last = max(at for at, message in enumerate(self.agent.messages) if message.role == "user")
        del self.agent.messages[last:]
        self.transcript.compacted(self.agent.messages)
        yield from self.ask(question)

    def last_question(self) -> str:
        return next((m.text for m in reversed(self._messages) if m.role == "user"), "")

    def last_answer(self) -> str:
        return next((m.text for m in reversed(self._messages) if m.role == "assistant" and m.text), "")

    @property
    def _messages(self) -> Sequence[Message]:
        return self.agent.messages if self.agent else ()

    def _start(self, text: str) -> Answering:
        """Search once, with the first message, and build the prompt that stays the same from then on."""
        passages: list[ShownPassage] = []
        if self.use_memory:
            try:
                passages = self._relevant(text)
            except TarsError as error:
                yield Notice(f"memory could not be searched: {error}")
        standing = [(path, self._standing(path)) for path in STANDING_NOTES] if self.use_memory else []
        now = self.app.now()
        system = system_prompt(
            today=now.date(), standing=standing, passages=passages, tools=self.use_memory and self.provider.uses_tools
        )
        shown = [(path, 1, text.count("\n") + 1) for path, text in standing if text]
        shown += [(p.path, p.start_line, p.end_line) for p in passages]
        session = Session("", self.model, system, now.isoformat(timespec="seconds"), shown=shown)
        session.private = self._holds_private()
        session.id = sessions.new_id(now, self._folder) if self.save else ""
        self.session, self.transcript = session, self._transcript(session)
        self.transcript.start(session)
        self._make_agent(session)

    def _transcript(self, session: Session) -> Transcript:
        return Transcript(self._folder / f"{session.id}.jsonl") if self.save else NoTranscript()

    def _make_agent(self, session: Session) -> None:
        self.tools: Toolbox | NoTools = NoTools()
        if self.use_memory:
            self.tools = Toolbox(self.app, leaves_machine=self.provider.leaves_machine)
            self.tools.shown += session.shown
        self.agent = Agent(
            self.provider,
            self.tools,
            session.system,
            session.messages,
            record=self.transcript.record,
            partial=self.transcript.partial,
        )

    def _relevant(self, text: str) -> list[ShownPassage]:
        """What the prompt shows: the best passage of each note, then the others, then what stands beside them."""
        outcome = self.app.search(text, limit=CONTEXT_PASSAGES, min_confidence=self.app.config.agent.min_confidence)
        hidden = self.provider.leaves_machine
        self.found = [r for r in outcome.results if not (hidden and r.private) and r.file_path not in STANDING_NOTES]
        first = {r.file_path: r for r in reversed(self.found)}
        best = [r for r in self.found if first[r.file_path] is r]
        others = [r for r in self.found if first[r.file_path] is not r]
        beside = [p for p in self.app.neighbours(best) if not (hidden and p.private)]
        budget = min(MOST_CONTEXT_TOKENS, int(CONTEXT_SHARE * self.provider.context_tokens))
        return fit_passages([shown_of(r) for r in [*best, *others, *beside]], budget_tokens=budget)

    def _standing(self, path: str) -> str:
        text = self.app.note_text(path)
        if self.provider.leaves_machine:
            text = public_text(text)
        return text[:MOST_STANDING_CHARS]

    def _holds_private(self) -> bool:
        """Whether something private is in the prompt, so that it must stay on this machine."""
        if self.provider.leaves_machine or not self.use_memory:
            return False
        standing = [self.app.note_text(path) for path in STANDING_NOTES]
        return any(r.private for r in self.found) or any(public_text(text) != text for text in standing)

    def _refuse_private(self, provider: Provider, session: Session) -> None:
        if provider.leaves_machine and session.private:
            raise TarsError("this conversation has read private passages, which must not leave the machine;"
                            f" start a new one to use {provider.name}")  # fmt: skip

    def _compact(self, agent: Agent) -> Answering:
        """Make room before the model's context is full."""
        if not sessions.needs_compaction(agent.provider, agent.system, agent.messages):
            return
        yield Notice("the conversation is long; summarising its beginning")
        agent.messages = sessions.compact(agent.messages, self._summary)
        self.transcript.compacted(agent.messages)

    def _summary(self, messages: Sequence[Message]) -> str:
        if self.provider.name == "recall":
            return sessions.what_the_person_said(messages)
        return sessions.summarise_with(self.provider, self.agent.system if self.agent else "", messages)

    # ---- what the person asks of the conversation itself

    def cited(self, citation: Citation) -> Citation | None:
        return citations.resolve(citation, self.shown())

    def shown(self) -> dict[str, list[tuple[int, int]]]:
        """Which lines of which notes the model was shown."""
        places: dict[str, list[tuple[int, int]]] = {}
        for path, start, end in self.tools.shown if self.agent else ():
            places.setdefault(path, []).append((start, end))
        return places

    def citations(self) -> list[dict[str, object]]:
        """The citations of the last answer, and whether the model was shown what they name."""
        checked = citations.check(citations.find(self.last_answer()), self.shown())
        return [{"path": c.path, "start_line": c.start, "end_line": c.end, "shown": true} for c, true in checked]

    def untrue_citations(self) -> list[str]:
        """Those of the last answer that name what the model was never shown."""
        checked = citations.check(citations.find(self.last_answer()), self.shown())
        return list(dict.fromkeys(str(citation) for citation, true in checked if not true))

    def why(self) -> str:
        results = self.results()
        if not results:
            return "No memory was used in this conversation."
        return "\n".join(
            f"{number}. {result.file_path}:{result.start_line}-{result.end_line}  {explain(result)}"
            for number, result in enumerate(results, 1)
        )

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
        return f"forgotten: {written.text} ({written.path}:{written.line})"

    def memory(self) -> str:
        counts = self.app.store.counts()
        return f"{self.app.note_text('Memory.md').strip()}\n\n{counts['notes']} notes in {self.folder}"

    def models(self) -> list[str]:
        return self.app.models

    def set_model(self, name: str) -> None:
        provider = self.app.provider(name)
        if self.session:
            self._refuse_private(provider, self.session)
        self.provider = provider
        if self.agent and self.session:
            self._earlier_usage = self.usage
            self.session.messages, self.session.shown = self.agent.messages, list(self.tools.shown)
            self._make_agent(self.session)
            self.transcript.model(provider.name)

    def sessions(self) -> list[tuple[str, str]]:
        return [(session.id, session.first_words) for session in sessions.list_sessions(self._folder)]

    def resume(self, session_id: str) -> None:
        self._begin(sessions.find_session(self._folder, session_id))

    def clear(self) -> None:
        self._earlier_usage = self.usage
        self._begin()

    def index(self) -> str:
        report = self.app.build()
        if report is None:
            return "Another process is indexing."
        return f"{report.indexed} notes indexed, {report.unchanged} unchanged, {report.removed} removed."

    def note_paths(self) -> list[str]:
        return sorted(self.app.store.stamps())

    # ---- the end

    def close(self) -> Answering:
        """Remember the conversation as a note, without repeating what came from the notes."""
        if not (self.save and self.use_memory and self.agent and self.session):
            return
        lines = yield from self._note_lines(self.agent)
        used = sorted({str(c) for m in self.agent.messages for c in self._true_citations(m)})
        note = None
        if lines:
            now = self.app.now()
            name = f"sessions/{now:%Y-%m-%d}-{self.session.id}.md"
            self.app.write_new(name, sessions.note_text(self.session, lines, used, now))
            note = name
            yield Notice(f"remembered as {name}")
        self.transcript.ended(note)

    def _true_citations(self, message: Message) -> list[Citation]:
        if message.role != "assistant":
            return []
        found = (self.cited(citation) for citation in citations.find(message.text))
        return [replace(citation, span=(0, 0)) for citation in found if citation]

    def _note_lines(self, agent: Agent) -> Generator[AgentEvent, None, list[str]]:
        """1 to 8 lines worth keeping; none if the conversation only asked."""
        if self.provider.name == "recall":
            lines = sessions.statements(agent.messages)
        else:
            yield Notice("writing the note of this conversation")
            lines = self._model_lines(agent)
        quoted = "\n".join([*(r.content for r in self.results()), *(self._standing(p) for p in STANDING_NOTES)])
        return sessions.without_echo(lines, quoted)[:8]

    def _model_lines(self, agent: Agent) -> list[str]:
        request = [*sessions.plain_turns(agent.messages), Message("user", sessions.NOTE)]
        stream = self.provider.stream(agent.system, request, ())
        parts: list[str] = []
        for event in stream:
            if isinstance(event, Text):
                parts.append(event.text)
        text = "".join(parts).strip()
        if text.strip(".*_ ") == "NOTHING":
            return []
        return [line.strip() for line in text.splitlines() if line.strip()]


def shown_of(result: SearchResult) -> ShownPassage:
    return ShownPassage(
        result.file_path, result.start_line, result.end_line, result.file_title, result.date, result.content
    )
