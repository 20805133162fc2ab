"""Change events of Debezium in JSON lines and Kafka topics."""

from __future__ import annotations
