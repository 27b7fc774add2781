"""One session per check; they share the environment that `make` installs, so nothing is installed twice."""

from __future__ import annotations

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["unit", "scalar", "recovery", "rf3", "lint", "types"]


def _suite(session: nox.Session, name: str) -> None:
    session.run("python", "-m", "apphost", f"--suite={name}", *session.posargs)


@nox.session
def unit(session: nox.Session) -> None:
    """Engine, storage, protocol, gateway and client on real files."""
    _suite(session, "unit")


@nox.session
def scalar(session: nox.Session) -> None:
    """The unit cases with every accelerated kernel switched to its reference."""
    _suite(session, "scalar")


@nox.session
def recovery(session: nox.Session) -> None:
    """Real processes killed at named steps and reopened."""
    _suite(session, "recovery")


@nox.session
def rf3(session: nox.Session) -> None:
    """Three nodes under faults, driven by the SDK and the official MCP client."""
    _suite(session, "rf3")


@nox.session
def lint(session: nox.Session) -> None:
    """Format and lint."""
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Strict types of keyload/."""
    session.run("pyright")
