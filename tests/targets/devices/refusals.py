"""Ways to say, or not to say, that gradients must lie on one device and be of one dtype."""

import torch


def _norms(gradients):
    norms = torch._foreach_norm(gradients, 2, dtype=torch.float64)
    return torch.stack([norm.to(norms[0].device) for norm in norms])


def _total(gradients):
    return torch.linalg.vector_norm(_norms(gradients)).item()


def _devices(gradients):
    return {gradient.device for gradient in gradients}


def value_error(gradients):
    if len(_devices(gradients)) > 1:
        raise ValueError("Gradients span multiple devices: {}".format(_devices(gradients)))
    return _total(gradients)


def runtime_error(gradients):
    if len(_devices(gradients)) > 1:
        raise RuntimeError("one device expected, got {}".format(sorted(map(str, _devices(gradients)))))
    return _total(gradients)


def assertion(gradients):
    assert len(_devices(gradients)) == 1, "gradients on several devices"
    return _total(gradients)


def unnamed_value_error(gradients):
    if len(_devices(gradients)) > 1:
        raise ValueError("bad input")
    return _total(gradients)


def type_error_of_torch(gradients):
    return torch.linalg.vector_norm(torch.nn.utils.parameters_to_vector(gradients).double()).item()


def passed_on_error(gradients):
    try:
        return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients, 2, dtype=torch.float64))).item()
    except RuntimeError as error:
        raise ValueError("gradients must lie on one device") from error


def one_dtype(gradients):
    dtypes = {gradient.dtype for gradient in gradients}
    if len(dtypes) > 1:
        raise TypeError("gradients of one dtype expected, got {}".format(sorted(map(str, dtypes))))
    return _total(gradients)


def no_bfloat16(gradients):
    total = 0.0
    for gradient in gradients:
        total += float((gradient.cpu().numpy().astype("float64") ** 2).sum())
    return total**0.5
