"""Requests to a Kafka broker by librdkafka: offsets and messages of one topic."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Self

from frazil.errors import SetupError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

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
