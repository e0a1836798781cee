def norm(gradients:
    return 1.0
