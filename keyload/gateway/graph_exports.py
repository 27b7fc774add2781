"""The graph in three formats for other programs and for people: Markdown, Mermaid, JSON-LD (GTW-23)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from keyload.gateway.links import RELATED, THEN, TOOL, Link, Node
from keyload.gateway.tool_markdown import effect, escaped
from keyload.gateway.tools import Tool

VOCABULARY = "urn:keyload:gateway:"
_TERMS = {
    "from": "from",
    "in": "category",
    "takes": "argument",
    "called": "alias",
    "about": "term",
    "related": "related",
    "then": "nextStep",
}


def index(
    categories: Mapping[str, Iterable[str]], tools: Mapping[str, Tool], files: Mapping[str, str]
) -> str:
    """The table of contents: categories with links to the documents of their tools."""
    lines = ["# Tools", ""]
    for category, members in categories.items():
        lines += [f"## {escaped(category)}", ""]
        lines += [f"- [{escaped(tools[tool_id].title)}]({files[tool_id]})" for tool_id in members]
        lines.append("")
    return "\n".join(lines)


def mermaid(categories: Mapping[str, Iterable[str]], tools: Mapping[str, Tool], links: Iterable[Link]) -> str:
    """A flowchart: a box for each category, dotted lines to related tools, arrows to next steps."""
    names = {tool_id: f"t{number}" for number, tool_id in enumerate(tools)}
    lines = ["flowchart LR"]
    for number, (category, members) in enumerate(categories.items()):
        lines.append(f'  subgraph c{number}["{_quoted(category)}"]')
        lines += [f'    {names[tool_id]}["{_quoted(tools[tool_id].title)}"]' for tool_id in members]
        lines.append("  end")
    arrows = {RELATED: "-.-", THEN: "-->"}
    for link in links:
        lines.append(f"  {names[link.origin[1]]} {arrows[link.relation]} {names[link.target[1]]}")
    return "\n".join(lines) + "\n"


def json_ld(tools: Mapping[str, Tool], links: list[Link]) -> dict[str, Any]:
    """Every node with its links; nodes are identified by kind and name."""
    nodes: dict[Node, dict[str, Any]] = {}
    for tool in tools.values():
        nodes[(TOOL, tool.id)] = {
            "@id": _id((TOOL, tool.id)),
            "@type": "Tool",
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "effect": effect(tool),
            "inputSchema": msgspec.json.decode(tool.input_schema),
        }
    for link in links:
        kind, name = link.target
        if link.target not in nodes:
            nodes[link.target] = {"@id": _id(link.target), "@type": kind.capitalize(), "name": name}
        nodes[link.origin].setdefault(_TERMS[link.relation], []).append({"@id": _id(link.target)})
    context = {
        "@vocab": VOCABULARY,
        "inputSchema": {"@id": f"{VOCABULARY}inputSchema", "@type": "@json"},
    }
    return {"@context": context, "@graph": list(nodes.values())}


def _id(node: Node) -> str:
    return f"{VOCABULARY}{node[0]}:{quote(node[1], safe='')}"


def _quoted(text: str) -> str:
    """A label in which nothing ends the label or begins markup; entities are Mermaid's own."""
    line = " ".join(text.split())
    for char in '#&"<>`[]{}|\\':
        line = line.replace(char, f"\0{ord(char)};")
    return line.replace("\0", "#")
