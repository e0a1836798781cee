import torch


def packs(grads, elements=1 << 20):
    pieces, space = [], elements
    for grad in grads:
        for piece in grad.reshape(-1).split(elements):
            if piece.numel() > space or (pieces and piece.device != pieces[0].device):
                yield torch.cat(pieces)
                pieces, space = [], elements
            pieces.append(piece)
            space -= piece.numel()
    if pieces:
        yield torch.cat(pieces)


def gradient_counts(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    elements = sum(g.numel() for g in grads)
    if not elements:
        return {"zero_fraction": 0.0, "nan_count": 0, "inf_count": 0}
    home, zeros, nans, infs = grads[0].device, 0, 0, 0
    for pack in packs(grads):
        zeros = zeros + (pack.numel() - torch.count_nonzero(pack)).to(home)
        nans = nans + torch.count_nonzero(torch.isnan(pack)).to(home)
        infs = infs + torch.count_nonzero(torch.isinf(pack)).to(home)
    zero_count, nan_count, inf_count = torch.stack([zeros, nans, infs]).tolist()
    return {
        "zero_fraction": zero_count / elements,
        "nan_count": nan_count,
        "inf_count": inf_count,
    }
