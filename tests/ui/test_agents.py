"""``frazil mcp`` as an agent uses it: a process of its own, asked over standard input and output."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client, StdioServerParameters

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.process]

ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "status": ("status", {}),
    "schema": ("schema", {"table": "items"}),
    "rows": ("query", {"sql": "SELECT id, price FROM marts.items ORDER BY id", "limit": 2}),
    "all rows": ("query", {"sql": "SELECT id FROM marts.items", "limit": 10**9}),
    "key": ("key", {"table": "items", "values": ["1"]}),
    "quarantine": ("quarantine", {"table": "items"}),
    "plan": ("plan", {}),
    "a write": ("query", {"sql": "DELETE FROM marts.items"}),
    "a file": ("query", {"sql": "SELECT * FROM read_text('/etc/hostname')"}),
    "another file": ("query", {"sql": "COPY (SELECT 1) TO '/tmp/frazil-mcp.csv'"}),
    "no table": ("query", {"sql": "SELECT * FROM marts.nothing"}),
}


async def answers(folder: Path) -> tuple[list[Any], dict[str, Any]]:
    """Return the tools, and the answer to each question."""
    server = StdioServerParameters(command=sys.executable, args=["-m", "frazil", "mcp", f"{folder}"])
    async with Client(server) as agent:
        tools = await agent.list_tools()
        return tools.tools, {name: await agent.call_tool(tool, given) for name, (tool, given) in ASKED.items()}


@pytest.mark.long
def test_an_agent_reads_the_lake_and_cannot_change_it(project: Path) -> None:
    tools, told = asyncio.run(answers(project))

    assert [tool.name for tool in tools] == ["status", "schema", "query", "key", "quarantine", "plan"]
    assert all(tool.description and tool.annotations.read_only_hint for tool in tools)
    refused = {name: one.content[0].text for name, one in told.items() if one.is_error}
    assert [*refused] == ["a write", "a file", "another file", "no table"]
    assert all("[FZ" in text for text in refused.values()), refused
    said = {name: json.loads(one.content[0].text) for name, one in told.items() if not one.is_error}
    assert said["rows"]["rows"] == [{"id": 1, "price": "1.70"}, {"id": 3, "price": "3.30"}]
    assert said["rows"]["is_more"] is True
    assert said["all rows"]["is_more"] is False
    assert [*said["key"]["marts"]] == ["marts.items", "marts.items_history"]
    assert [record["column"] for record in said["quarantine"]["records"]] == ["price"]
    assert said["plan"]["steps"] == []
    assert said["status"]["tables"][0]["table"] == "items"
    assert {column["name"] for column in said["schema"]["columns"]} >= {"id", "mail"}
