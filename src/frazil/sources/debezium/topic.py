"""Land a Kafka topic as files named by partition and offsets. The names are the bookmark; no consumer group is used.

``<landing>/<topic>/topic-<id>/<partition>/<first>-<next>.jsonl.gz`` holds the visible messages from offset ``first`` up
to, but not including, ``next``. Each line is a message; keys and values are unchanged texts.
"""

from __future__ import annotations

import base64
import gzip
import json
import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from frazil.errors import DeclarationError, SetupError, SourceError
from frazil.sources.capture import Lag, Landed, Looked, land_file, try_lock
from frazil.sources.debezium.forms import BINARY, RecordFormError, is_binary
from frazil.sources.debezium.source import NAME, LostOffsetsError
from frazil.sources.landed_files import note_landed
from frazil.spec.amount import counted
from frazil.spec.location import locate
from frazil.spec.secrets import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from frazil.spec import Pipeline, Table

FILE_BYTES: Final = 32 * 1024 * 1024
FILE_MESSAGES: Final = 50_000
"""Limit of a file, which may be exceeded by one message."""

_ID: Final = "topic-"


class _Range(NamedTuple):
    """A landing file and the offsets that it covers."""

    first: int
    next: int
    path: Path


def topic_captures(pipeline: Pipeline, tables: Sequence[Table]) -> list[TopicCapture]:
    """Return the captures of some tables; tables with the same topic and landing folder share one."""
    del pipeline
    found: dict[tuple[str, ...], list[Table]] = {}
    for table in tables:
        source = table.source
        if source.topic is not None:
            found.setdefault((source.servers, source.topic, source.landing), []).append(table)
    return [TopicCapture(tuple(some)) for some in found.values()]


@dataclass(frozen=True, slots=True)
class TopicCapture:
    """The capture of one topic, for all tables that read it."""

    of: tuple[Table, ...]
    file_bytes: int = FILE_BYTES
    file_messages: int = FILE_MESSAGES

    @property
    def name(self) -> str:
        """Return topic and brokers."""
        source = self.of[0].source
        return f"topic {source.topic} of {source.servers}"

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the names of the tables."""
        return tuple(table.name for table in self.of)

    def land(self, folder: Path, progress: Callable[[str], None]) -> Landed:
        """Land the messages of each partition that are visible now."""
        root = self._root(folder)
        with try_lock(root / ".lock") as is_alone:
            if not is_alone:
                return Landed(busy="another process")
            with self._broker(folder) as broker:
                mine = self._folder(root, broker.topic_id())
                files = records = 0
                for partition in broker.partitions():
                    at = mine / f"{partition:06}"
                    first = self._next(at, broker, partition)
                    for messages, upto in self._pieces(broker, partition, first):
                        lines = _lines(messages, at)
                        name = f"{first:020}-{upto:020}.jsonl.gz"
                        land_file(at / name, partial(_write, lines=lines))
                        note_landed(at, [name])
                        files, records, first = files + 1, records + len(messages), upto
                        progress(f"{counted(records, 'message')}, partition {partition}")
                return Landed(files=files, records=records)

    def behind(self, folder: Path) -> Lag:
        """Return the age of the oldest message that is not landed."""
        root = self._root(folder)
        with self._broker(folder) as broker:
            mine = root / f"{_ID}{broker.topic_id()}"
            times = [
                broker.time_of(partition, max(_ranges(mine / f"{partition:06}"), default=_Range(0, 0, mine)).next)
                for partition in broker.partitions()
            ]
        oldest = min((at for at in times if at is not None), default=None)
        seconds = 0.0 if oldest is None else max(time.time() - oldest / 1000, 0.0)
        return Lag(behind_seconds=seconds, begun=mine.is_dir())

    def examine(self, folder: Path) -> Iterator[Looked]:
        """Check that the topic is readable."""
        begun = "" if self.behind(folder).begun else "; nothing captured yet"
        yield Looked(ok=True, detail=f"the topic can be read{begun}")

    def forgettable(self, folder: Path, files: Collection[Path]) -> dict[Path, tuple[str, ...]]:
        """Return all landing files except the newest of each partition.

        The newest file stays because a following tombstone takes its place from the message before it.
        """
        root, found = self._root(folder).resolve(), {}
        newest: dict[Path, Path | None] = {}
        for file in files:
            name, partition = NAME.fullmatch(file.name), file.parent
            if name is None or not name[3] or root not in partition.resolve().parents or not file.exists():
                continue
            if partition not in newest:
                newest[partition] = _newest_written(partition)
            if file != newest[partition]:
                found[file] = self.tables
        return found

    def forget(self, folder: Path, files: Collection[Path]) -> list[Path]:
        """Replace all landing files, except the newest of each partition, by empty files with the same offsets."""
        with try_lock(self._root(folder) / ".lock") as is_alone:
            gone = [*self.forgettable(folder, files)] if is_alone else []
            for file in gone:
                file.with_suffix("").touch()
                file.unlink()
        return gone

    def _root(self, folder: Path) -> Path:
        source = self.of[0].source
        found = locate(source.landing, setting="landing", folder=folder).path
        if found is None:
            raise DeclarationError(
                f"landing '{source.landing}' of {self.name} is not a local folder",
                hint="use a local folder, such as ./landing",
            )
        return found / str(source.topic)

    def _broker(self, folder: Path) -> Broker:
        source = self.of[0].source
        settings = {name: resolve(text, setting=name, folder=folder) for name, text in source.properties.items()}
        servers = resolve(source.servers, setting="servers", folder=folder)
        return Broker(servers, source.topic, settings, self.name)

    def _folder(self, root: Path, topic_id: str) -> Path:
        """Return the folder of the current topic, which may have replaced another one with its name."""
        mine, others = root / f"{_ID}{topic_id}", sorted(root.glob(f"{_ID}*"))
        if others and mine not in others:
            raise LostOffsetsError(
                f"{self.name} was deleted and created again: the landed messages came from the earlier topic",
                hint=f"to continue with the new topic after the old one: mkdir '{mine}'; to start over, move {root} "
                f"away, then frazil drop --select {self.tables[0]} and frazil run",
            )
        mine.mkdir(exist_ok=True)
        return mine

    def _next(self, at: Path, broker: Broker, partition: int) -> int:
        """Return the next offset to land."""
        low, high = broker.offsets(partition)
        ranges = _ranges(at)
        if not ranges:
            return low
        upto = max(ranges).next
        if low > upto:
            raise LostOffsetsError(
                f"{self.name}, partition {partition}: offsets {upto} to {low - 1} were deleted before they were landed",
                hint="let Debezium read the table again (a blocking snapshot finds deleted rows too), then continue "
                f"after the gap: touch '{at / f'{upto:020}-{low:020}.jsonl'}'",
            )
        if high < upto:
            raise LostOffsetsError(
                f"{self.name}, partition {partition}: ends at offset {high}, but {upto} offsets were landed: "
                "the topic has lost messages",
                hint=f"restore the topic; or move {at.parent.parent} away, then frazil drop --select "
                f"{self.tables[0]} and frazil run, to start over",
            )
        return upto

    def _pieces(self, broker: Broker, partition: int, first: int) -> Iterator[tuple[list[Any], int]]:
        """Yield (messages for one file, offset after them).

        Raises:
            RecordFormError: a value is Avro or Protobuf.
        """
        piece: list[Any] = []
        size = 0
        for message, upto in broker.messages(partition, first):
            if message is None:
                if piece:
                    yield piece, upto
                return
            if is_binary(message.value()):
                raise RecordFormError(f"{self.name}, partition {partition}, offset {message.offset()}", BINARY)
            piece.append(message)
            size += len(message)
            if size >= self.file_bytes or len(piece) >= self.file_messages:
                yield piece, upto
                piece, size = [], 0


def _ranges(folder: Path) -> list[_Range]:
    names = [(NAME.fullmatch(path.name), path) for path in folder.glob("*.jsonl*")]
    return sorted(_Range(int(found[1]), int(found[2]), path) for found, path in names if found)


def _newest_written(folder: Path) -> Path | None:
    """Return the landing file of a partition with the newest messages."""
    return max((found for found in _ranges(folder) if found.path.stat().st_size), default=_Range(0, 0, folder)).path


def _lines(messages: Sequence[Any], folder: Path) -> list[str]:
    """Return messages as JSON lines; the first line names the message before it if it takes its place from that."""
    lines, follows, is_first = [], None, True
    for message in messages:
        line = {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": message.timestamp()[1],
            "key": _text(message.key()),
            "value": _text(message.value()),
            "headers": [[name, _text(value)] for name, value in message.headers() or ()],
        }
        if is_first and (_takes_place(line["value"]) or _takes_image(line["value"])):
            follows = follows or _last_value(folder)
            line |= {"follows": follows} if follows else {}
        is_first = is_first and message.value() is None
        lines.append(f"{json.dumps(line, ensure_ascii=False, separators=(',', ':'))}\n")
    return lines


def _takes_place(value: Any) -> bool:
    """Return True for a tombstone or an incremental read, which may take the place of the message before."""
    return value is None or '"incremental"' in f"{value}"


def _takes_image(value: Any) -> bool:
    """Return True for a row of a tool that may write the image before an update as a message of its own."""
    return any(name in f"{value}" for name in ('change_oper"', '"__$operation"', '"_change_type"'))


def _last_value(folder: Path) -> Any:
    """Return the value of the last landed message with a place of its own; None without such a message."""
    for found in reversed(_ranges(folder)):
        follows = None
        with gzip.open(found.path, "rt", encoding="utf-8") if found.path.suffix == ".gz" else found.path.open() as file:
            for text in file:
                line = json.loads(text)
                follows = line.get("follows", follows) if _takes_place(line["value"]) else line["value"]
        if follows is not None:
            return follows
    return None


def _text(data: bytes | str | None) -> Any:
    if data is None or isinstance(data, str):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _write(path: Path, lines: Sequence[str]) -> None:
    # Without a timestamp, the same messages give the same bytes.
    with path.open("wb") as file, gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed:
        packed.writelines(line.encode() for line in lines)


_LOG: Final = logging.getLogger("frazil.kafka")
_LOG.addHandler(logging.NullHandler())
_ANSWER_SECONDS: Final = 30.0
_AT_ONCE: Final = 1_000


class Broker:
    """Reader of one topic. It uses no consumer group; the caller passes the offset.

    Args:
        servers: host:port, separated by commas.
        topic: name of the topic.
        settings: settings of librdkafka, which override the defaults here.
        name: name of the topic, for messages.
    """

    def __init__(self, servers: str, topic: str, settings: Mapping[str, str], name: str) -> None:
        try:
            import confluent_kafka  # noqa: PLC0415 - an extra
            import confluent_kafka.admin  # noqa: PLC0415
        except ImportError as error:
            raise SetupError("Kafka needs a client library", hint="pip install 'frazil[kafka]'") from error
        self._kafka: Any = confluent_kafka
        self._topic, self._name = topic, name
        self._settings: dict[str, Any] = {
            "bootstrap.servers": servers,
            "client.id": "frazil",
            "group.id": "frazil",  # asked for by the library; never joined
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "socket.connection.setup.timeout.ms": 10_000,
            **settings,
        }
        self._consumer: Any = None

    def __enter__(self) -> Self:
        try:
            self._consumer = self._kafka.Consumer(self._settings, logger=_LOG)
        except (self._kafka.KafkaException, ValueError, TypeError) as error:
            raise self._trouble(error) from None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._consumer.close()

    def topic_id(self) -> str:
        """Return the id of the topic. A deleted topic with the same name had another id."""
        admin = self._kafka.admin
        own = ("bootstrap.", "client.", "security.", "sasl.", "ssl.", "socket.")
        settings = {name: value for name, value in self._settings.items() if name.startswith(own)}
        try:
            client = admin.AdminClient(settings, logger=_LOG)
            [asked] = client.describe_topics(
                self._kafka.TopicCollection([self._topic]), request_timeout=_ANSWER_SECONDS
            ).values()
            # The library writes an id as Base64 with slashes; brokers use a form that is valid in folder names.
            return f"{asked.result(_ANSWER_SECONDS).topic_id}".replace("/", "_").replace("+", "-")
        except (self._kafka.KafkaException, TimeoutError) as error:
            raise self._trouble(error) from None

    def partitions(self) -> list[int]:
        """Return the numbers of the partitions."""
        try:
            found = self._consumer.list_topics(self._topic, timeout=_ANSWER_SECONDS).topics[self._topic]
        except self._kafka.KafkaException as error:
            raise self._trouble(error) from None
        if found.error is not None:
            raise self._trouble(found.error)
        return sorted(found.partitions)

    def offsets(self, partition: int) -> tuple[int, int]:
        """Return the first available offset and the offset after the last message."""
        at = self._kafka.TopicPartition(self._topic, partition)
        try:
            low, high = self._consumer.get_watermark_offsets(at, timeout=_ANSWER_SECONDS)
        except self._kafka.KafkaException as error:
            raise self._trouble(error) from None
        return low, high

    def messages(self, partition: int, first: int) -> Iterator[tuple[Any, int]]:
        """Yield (message, offset after it) for each committed message up to the current end; then (None, end).

        Offsets without a message, from transactions or compaction, are skipped.
        """
        end = self.offsets(partition)[1]
        if first >= end:
            return
        self._consumer.assign([self._kafka.TopicPartition(self._topic, partition, first)])
        upto = first
        try:
            while upto < end:
                # A request for many messages would wait until that many exist.
                one = self._consumer.poll(_ANSWER_SECONDS)
                if one is None:
                    raise SourceError(f"{self._name}: no answer for {_ANSWER_SECONDS:.0f} seconds", hint=_WAY_OUT)
                for message in (one, *self._consumer.consume(_AT_ONCE, 0)):
                    error = message.error()
                    if error is None:
                        upto = message.offset() + 1
                        yield message, upto
                    elif error.code() == self._kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library's name
                        yield None, max(upto, message.offset())
                        return
                    elif not error.retriable() and error.code() != self._kafka.KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
                        raise self._trouble(error)
            yield None, upto
        finally:
            self._consumer.unassign()

    def time_of(self, partition: int, offset: int) -> int | None:
        """Return the time of the first message from an offset on, in milliseconds since 1970, or None."""
        for message, _ in self.messages(partition, max(offset, self.offsets(partition)[0])):
            return None if message is None else int(message.timestamp()[1])
        return None

    def _trouble(self, error: object) -> SourceError:
        inner = error.args[0] if isinstance(error, Exception) and error.args else error
        said = inner.str() if hasattr(inner, "str") else f"{inner or error}"
        return SourceError(f"{self._name}: {said}", hint=_WAY_OUT)


_WAY_OUT: Final = "check that the brokers run and are reachable, and that the topic exists; then run again"
