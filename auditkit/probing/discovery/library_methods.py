"""Methods of libraries' objects that handle gradients, and which library a call of one belongs to.

Only what is plainly a library's: a function of an imported package, a method of an object that a package's class
makes, of a base class that is a package's, or of a name that no other library has.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from auditkit.model.enums import Contract, Takes
from auditkit.probing.source_code.modules import Class, Module, dotted_name, targets_of
from auditkit.probing.source_code.python_files import PythonFiles
from auditkit.probing.source_code.walking import walk


@dataclass(frozen=True)
class Method:
    """What is known of a method by its name: its answer, its first argument, and the class that alone has it."""

    contract: Contract
    takes: tuple[Takes, ...] = ()
    only_of: str = ""


METHODS = {
    "clip_grad_norm_": Method(Contract.GRAD_NORM, (Takes.PARAMETERS,)),
    "clip_grad_value_": Method(Contract.GRAD_NORM, (Takes.PARAMETERS,)),
    "get_global_grad_norm": Method(Contract.GRAD_NORM, (), "deepspeed.runtime.engine:DeepSpeedEngine"),
    "_check_inf_per_device": Method(Contract.GRAD_STATS, (Takes.OPTIMIZER,), "torch.amp.grad_scaler:GradScaler"),
    "_unscale_grads_": Method(Contract.GRAD_STATS, (Takes.OPTIMIZER,)),
    "watch": Method(Contract.MONITOR, (Takes.MODULE,)),
}
_SHARDED = "FullyShardedDataParallel"


class LibraryMethods:
    """Tells of the calls of one checkout which are methods of a library."""

    def __init__(self, files: PythonFiles) -> None:
        self._files = files
        self._holders: dict[Module, dict[str, str]] = {}

    def called(self, module: Module, call: ast.Call, inside: str) -> str:
        """`accelerate:Accelerator.clip_grad_norm_` for a call of it; "" for what is no library's."""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if name not in METHODS or not isinstance(call.func, ast.Attribute):
            return ""
        receiver = call.func.value
        if name == "watch":
            is_wandb = module.full_name(dotted_name(receiver)) == "wandb" and not self._is_own(module, "wandb")
            return "wandb:watch" if is_wandb else ""
        is_super = isinstance(receiver, ast.Call) and dotted_name(receiver.func) == "super"
        holder = self._base(module, inside) if is_super else self._holder(module, dotted_name(receiver), name)
        return f"{holder}.{name}" if holder else ""

    def _holder(self, module: Module, receiver: str, method: str) -> str:
        """The class of a library whose instance a name is: made of it, or the only class that has the method."""
        if module not in self._holders:
            self._holders[module] = dict(self._made(module))
        known = self._holders[module].get(receiver)
        if known or not receiver or receiver == "self":
            return known or ""
        only_of = METHODS[method].only_of
        if only_of:
            is_own = self._files.file_of(only_of.partition(".")[0]) or self._defines(method)
            return "" if is_own else only_of
        if method != "clip_grad_norm_" or module.origins.get(receiver.partition(".")[0]):
            return ""
        sharded = (self._foreign(module, local) for local in module.origins)
        return next((each for each in sharded if each.endswith(f":{_SHARDED}")), "")

    def _is_own(self, module: Module, package: str) -> bool:
        """Whether an import of it reaches a file of the checkout, if only beside a script."""
        top = package.partition(".")[0]
        beside = (self._files.path / module.file).parent / top
        own = (beside.with_suffix(".py"), beside / "__init__.py")
        return self._files.file_of(top) is not None or not self._files.names.keys().isdisjoint(own)

    def _defines(self, method: str) -> bool:
        return any(function.name == method for function in self._files.functions())

    def _made(self, module: Module) -> Iterator[tuple[str, str]]:
        """The names that are given an instance of a library's class, by an assignment or an annotation."""
        for node in walk([module.tree]):
            if isinstance(node, ast.arg) and node.annotation is not None:
                named = self._foreign(module, dotted_name(node.annotation))
                yield node.arg, "" if named == "torch.nn:Module" else named  # one of its heirs has the method
            value = getattr(node, "value", None)
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(value, ast.Call):
                made = self._foreign(module, dotted_name(value.func))
                yield from ((dotted_name(target), made) for target in targets_of(node))

    def _base(self, module: Module, inside: str) -> str:
        """The first base of a library that the class around a method has."""
        owner = module.named(inside.rpartition(".")[0])
        bases = owner.node.bases if isinstance(owner, Class) else []
        return next((found for each in bases if (found := self._foreign(module, dotted_name(each)))), "")

    def _foreign(self, module: Module, written: str) -> str:
        """`package:Class` of a class that a module imports from what is not the checkout's; "" for others."""
        head, _, rest = written.partition(".")
        package, _, name = module.origins.get(head, "").partition(":")
        if not package or self._is_own(module, package):
            return ""
        *inner, last = [part for part in (*name.split("."), *rest.split(".")) if part] or [""]
        return f"{'.'.join((package, *inner))}:{last}" if last[:1].isupper() else ""
