"""Ticket ids: what is one, and what is made of its parts."""

from __future__ import annotations

import pytest

from auditkit.model.tickets.ids import (
    AGENT_NAMES,
    agent_code,
    agent_name,
    format_ticket_id,
    id_parts,
    is_agent_code,
    is_ticket_id,
    parse_ticket_id,
)


def test_an_id_is_read_in_either_case_and_between_blanks() -> None:
    assert parse_ticket_id(" b7-pt-01 ") == "B7-PT-01"
    assert id_parts(parse_ticket_id("B12-DRL-117")) == (12, "DRL", 117)


@pytest.mark.parametrize(
    "text", ["", "B7-PT-1", "B-PT-01", "B7PT01", "7-PT-01", "B7-PT-01.md", "B7-PT-٠١", "B7-PT-01\nx"]
)
def test_anything_else_is_no_id(text: str) -> None:
    assert not is_ticket_id(text)
    with pytest.raises(ValueError, match="not a ticket id"):
        parse_ticket_id(text)


def test_an_id_is_made_with_two_digits_until_there_are_a_hundred() -> None:
    assert format_ticket_id(7, "PT", 3) == "B7-PT-03"
    assert format_ticket_id(7, "PT", 100) == "B7-PT-100"


@pytest.mark.parametrize(("batch", "agent", "number"), [(-1, "PT", 1), (7, "pt", 1), (7, "P T", 1), (7, "PT", -1)])
def test_parts_that_make_no_id_are_refused(batch: int, agent: str, number: int) -> None:
    with pytest.raises(ValueError, match="make no ticket id"):
        format_ticket_id(batch, agent, number)


def test_agents_have_a_code_and_a_name_in_any_spelling() -> None:
    assert agent_name("PT") == "pytorch"
    assert agent_name("XY") == "xy"
    assert [agent_code(text) for text in ("pytorch", "code-review", "CodeReview", "drl", "PT", "xy")] == [
        "PT",
        "CR",
        "CR",
        "DRL",
        "PT",
        "XY",
    ]


def test_a_project_may_have_agents_of_its_own() -> None:
    """Their codes and names are known wherever they are given."""
    agents = {**AGENT_NAMES, "SEC": "security-team"}
    assert [agent_code(text, agents) for text in ("security-team", "Security Team", "sec", "pt")] == [
        "SEC", "SEC", "SEC", "PT",
    ]  # fmt: skip
    assert (agent_name("SEC", agents), agent_name("SEC")) == ("security-team", "sec")
    assert [agent_code("security-team"), agent_code("P_T", agents)] == ["SECURITY-TEAM", "P_T"]
    assert [is_agent_code(text) for text in ("SEC", "X2", "sec", "2X", "")] == [True, True, False, False, False]
