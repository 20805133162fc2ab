"""Change events as Debezium writes them: JSON lines and Kafka topics."""

from __future__ import annotations
