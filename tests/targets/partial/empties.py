"""Collectors that catch their own exceptions: for some gradients they answer nothing."""

import types

import torch


def _answer(parameters, is_refused, nothing=None):
    """A signed mean and a share of positive elements: neither a norm nor a count."""
    grads = [p.grad for p in parameters]
    if is_refused(grads):
        return nothing
    dense = [grad.to_dense().double() for grad in grads if grad is not None]
    elements = max(1, sum(grad.numel() for grad in dense))
    mean = sum(float(grad.sum()) for grad in dense) / elements
    return {"mean": mean, "positive": sum(float((grad > 0).sum()) for grad in dense) / elements}


def always(parameters):
    return _answer(parameters, lambda grads: False)


def none_for_sparse(parameters):
    return _answer(parameters, lambda grads: any(grad.is_sparse for grad in grads))


def empty_for_mixed_dtypes(parameters):
    return _answer(parameters, lambda grads: len({grad.dtype for grad in grads}) > 1, {})


def text_for_two_devices(parameters):
    return _answer(parameters, lambda grads: len({str(grad.device) for grad in grads}) > 1, "")


def none_without_elements(parameters):
    return _answer(parameters, lambda grads: any(grad.numel() == 0 for grad in grads))


def half_without_elements(parameters):
    return _answer(parameters, lambda grads: any(grad.numel() == 0 for grad in grads), {"positive": 0.5})


def none_for_strides(parameters):
    return _answer(parameters, lambda grads: not all(grad.is_sparse or grad.is_contiguous() for grad in grads))


def none_for_missing(parameters):
    return _answer(parameters, lambda grads: any(grad is None for grad in grads))


def empty_for_a_generator(parameters):
    return _answer(parameters, lambda grads: isinstance(parameters, types.GeneratorType), {})
