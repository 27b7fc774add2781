"""keyload_admin_dispatch: delivery off or on for the whole store (SEC-22, CON-127)."""

from __future__ import annotations

from keyload.contract.tables import DISPATCH_PAUSED, SWITCHES
from keyload.models.catalog.rows import put_row
from keyload.models.context import CommandContext, CommandHandler


def _authorize(context: CommandContext, paused: bool) -> None:
    context.rights.require_administrator()


def _set(context: CommandContext, paused: bool) -> bool:
    put_row(context.txn, SWITCHES, DISPATCH_PAUSED, paused)
    return paused


DISPATCH = CommandHandler(authorize=_authorize, execute=_set)
