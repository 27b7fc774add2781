"""One small linked Markdown document for each tool: what the graph is made of, for people (GTW-23)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

from keyload.gateway.links import RELATED, THEN, ToolLinks
from keyload.gateway.tools import Tool

_UNSAFE = re.compile(r"[^a-z0-9]+")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|])")
_MAX_SLUG = 80


def file_names(tool_ids: Iterable[str]) -> dict[str, str]:
    """A file name for each tool id, different for different ids."""
    names: dict[str, str] = {}
    taken = {"index"}  # of the page that links to all
    for tool_id in tool_ids:
        slug = _UNSAFE.sub("-", tool_id.lower()).strip("-")[:_MAX_SLUG] or "tool"
        while slug in taken:
            slug += "-" + hashlib.sha256(tool_id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        taken.add(slug)
        names[tool_id] = f"{slug}.md"
    return names


def document(tool: Tool, tools: Mapping[str, Tool], links: ToolLinks, files: Mapping[str, str]) -> str:
    """The document of one tool; it links to the documents of related tools and next steps."""
    hints = tool.hints
    lines = [f"# {escaped(tool.title)}", "", f"`{tool.id}`", ""]
    if tool.description:
        lines += [escaped(tool.description), ""]
    lines += [
        f"- Source: {escaped(tool.source_id)}",
        f"- Category: {escaped(tool.category)}",
    ]
    lines.append(f"- Effect: {effect(tool)}")
    if hints.aliases:
        lines.append("- Also called: " + ", ".join(map(escaped, hints.aliases)))
    if hints.examples:
        lines.append("- For example: " + "; ".join(map(escaped, hints.examples)))
    if tool.document.arguments:
        lines += ["", "## Arguments", ""]
        for argument in tool.document.arguments:
            required = " (required)" if argument.required else ""
            text = f": {escaped(argument.text)}" if argument.text else ""
            lines.append(f"- `{argument.name}`{required}{text}")
    for heading, relation in (("Next steps", THEN), ("Related tools", RELATED)):
        others = links.leads_to(tool.id, relation)
        if others:
            lines += ["", f"## {heading}", ""]
            lines += [f"- [{escaped(tools[other].title)}]({files[other]})" for other in others]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """A text on one line in which Markdown finds no marks."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def effect(tool: Tool) -> str:
    """What a call does, as far as the hints say."""
    if tool.hints.read_only:
        return "reads only"
    return "may delete or overwrite" if tool.hints.destructive else "adds or changes"
