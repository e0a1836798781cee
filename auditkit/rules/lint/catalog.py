"""Every rule of lint, and which of them a name means."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterable, Mapping

from auditkit.rules.lint import checks
from auditkit.rules.lint.rule import RULES, Rule


@functools.cache
def all_rules() -> Mapping[str, Rule]:
    """Every rule by its id, in the order of the ids; importing the modules of `checks` registers them."""
    for module in pkgutil.iter_modules(checks.__path__):
        importlib.import_module(f"{checks.__name__}.{module.name}")
    return {rule_id: RULES[rule_id] for rule_id in sorted(RULES)}


def rules_named(name: str) -> tuple[Rule, ...]:
    """The rules that `name` means in any case: one by its id, several by its start (`TK06`), or `all`."""
    return tuple(rule for rule in all_rules().values() if _means(name, rule))


def select_rules(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> tuple[Rule, ...]:
    """The rules that `select` names (all of them where it is empty) without those that `ignore` names.

    Where both name a rule, the longer name decides, and of two equally long ones `ignore`.
    """
    selected, ignored = tuple(select) or ("all",), tuple(ignore)
    return tuple(rule for rule in all_rules().values() if _longest(selected, rule) > _longest(ignored, rule))


def _longest(names: Iterable[str], rule: Rule) -> int:
    """The length of the longest of `names` that means the rule, 0 for `all`, -1 where none does."""
    lengths = [0 if name.casefold() == "all" else len(name) for name in names if _means(name, rule)]
    return max(lengths, default=-1)


def _means(name: str, rule: Rule) -> bool:
    folded = name.strip().casefold()
    return folded == "all" or (bool(folded) and rule.id.casefold().startswith(folded))
