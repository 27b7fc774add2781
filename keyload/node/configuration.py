"""Reads the settings of a node and checks them as a whole before any file is opened (CLI-8..CLI-11, CLU-5).

A fault is one message that names the setting and holds no value, so no secret can leak through it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from keyload.codec.strict_json import parse
from keyload.contract.errors import KeyLoadError
from keyload.node.checks import check
from keyload.node.settings import SECRETS, NodeSettings

PREFIX = "KEYLOAD__"
MAX_FILE_BYTES = 1 << 20
MAX_SECRET_BYTES = 4096
_MAX_DEPTH = 8
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>[^`]*)`)?$", re.DOTALL)

Tree = dict[str, Any]


class SettingsError(Exception):
    """The settings do not make a node; the text is one message for people (exit 2)."""


def load(path: Path, environment: Mapping[str, str]) -> NodeSettings:
    """Settings of the file, overridden by the environment, checked; raises SettingsError."""
    tree = _read_file(path)
    _override(tree, environment)
    if "adminKey" not in tree and "KEYLOAD_ADMIN_KEY" in environment:
        tree["adminKey"] = environment["KEYLOAD_ADMIN_KEY"]
    return settings_of(tree)


def settings_of(tree: Tree) -> NodeSettings:
    """Decode and check a tree of settings in the form of the file; raises SettingsError."""
    try:
        settings = msgspec.convert(tree, NodeSettings)
    except msgspec.ValidationError as error:
        raise SettingsError(_message(str(error))) from None
    fault = check(settings)
    if fault is not None:
        raise SettingsError(fault)
    return settings


def _message(text: str) -> str:
    match = _PLACE.match(text)
    what, path = (match["what"], match["path"] or "") if match else (text, "")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", what)
    missing = re.fullmatch(r"Object missing required field `(.*)`", what)
    if unknown:
        return f"Setting {_join(path, unknown[1])}: there is no such setting."
    if missing:
        return f"Setting {_join(path, missing[1])}: is needed."
    return f"Setting {path.lstrip('.') or 'file'}: {what[:1].lower()}{what[1:]}."


def _join(path: str, name: str) -> str:
    return f"{path}.{name}".lstrip(".")


def _read_file(path: Path) -> Tree:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"Settings file {path}: {error.strerror}.") from None
    if len(content) > MAX_FILE_BYTES:
        raise SettingsError(f"Settings file {path}: larger than {MAX_FILE_BYTES} bytes.")
    try:
        tree = parse(content, _MAX_DEPTH)
    except KeyLoadError as error:
        raise SettingsError(f"Settings file {path}: {error.detail}") from None
    if not isinstance(tree, dict):
        raise SettingsError(f"Settings file {path}: expected one JSON object.")
    settings = cast(Tree, tree)
    _take_secrets(settings)
    return settings


def _take_secrets(tree: Tree) -> None:
    """Replace each `...File` setting by the content of the private file it names (CLI-11)."""
    for secret in SECRETS:
        name = _camel(secret)
        if f"{name}File" not in tree:
            continue
        if name in tree:
            raise SettingsError(f"Setting {name}: is given twice, as {name} and as {name}File.")
        tree[name] = _read_secret(f"{name}File", tree.pop(f"{name}File"))


def _read_secret(setting: str, path: Any) -> str:
    if not isinstance(path, str) or not path or "\0" in path:
        raise SettingsError(f"Setting {setting}: expected the path of a file.")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise SettingsError(f"Setting {setting}: {error.strerror}.") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise SettingsError(f"Setting {setting}: expected a regular file.")
        if mode & 0o077:
            raise SettingsError(f"Setting {setting}: others may read the file; make it private (chmod 600).")
        content = os.read(descriptor, MAX_SECRET_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MAX_SECRET_BYTES:
        raise SettingsError(f"Setting {setting}: the file is larger than {MAX_SECRET_BYTES} bytes.")
    try:
        return content.decode("ascii").strip()
    except UnicodeDecodeError:
        raise SettingsError(f"Setting {setting}: expected ASCII text in the file.") from None


def _override(tree: Tree, environment: Mapping[str, str]) -> None:
    """Put environment variables over the file's settings; an empty value is a value (CLI-8)."""
    given: Tree = {}
    for variable in sorted(environment):
        if variable.startswith(PREFIX):
            _place(given, variable, environment[variable])
    for secret in SECRETS:
        if {_camel(secret), f"{_camel(secret)}File"} & given.keys():
            tree.pop(_camel(secret), None)
    _take_secrets(given)
    _merge(tree, given)


def _place(given: Tree, variable: str, text: str) -> None:
    names = [part.lower() for part in variable.removeprefix(PREFIX).split("__")]
    if len(names) == 1 and names[0].endswith("_file") and names[0].removesuffix("_file") in SECRETS:
        given[_camel(names[0])] = text
        return
    wanted: Any = NodeSettings
    target = given
    for name in names[:-1]:
        wanted, outer_name = _member(wanted, name, variable)
        target = target.setdefault(outer_name, {})
    wanted, outer_name = _member(wanted, names[-1], variable)
    if _is_group(wanted):
        raise _unknown(variable)
    target[outer_name] = _typed(variable, wanted, text)


def _member(group: Any, name: str, variable: str) -> tuple[Any, str]:
    """Type and outer name of a member of a group of settings."""
    for field in msgspec.structs.fields(group) if _is_group(group) else ():
        if field.name == name:
            return field.type, field.encode_name
    raise _unknown(variable)


def _is_group(wanted: Any) -> bool:
    return isinstance(wanted, type) and issubclass(wanted, msgspec.Struct)


def _unknown(variable: str) -> SettingsError:
    return SettingsError(f"Environment variable {variable}: there is no such setting.")


def _typed(variable: str, wanted: Any, text: str) -> Any:
    try:
        if msgspec.json.schema(wanted).get("type") == "array":
            return msgspec.json.decode(text)
        value = msgspec.convert(text, wanted, strict=False)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise SettingsError(
            f"Environment variable {variable}: {_message(str(error)).split(': ', 1)[1]}"
        ) from None
    return value


def _merge(base: Tree, over: Tree) -> None:
    for name, value in over.items():
        present = base.get(name)
        if isinstance(value, dict) and isinstance(present, dict):
            _merge(cast(Tree, present), cast(Tree, value))
        else:
            base[name] = value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
