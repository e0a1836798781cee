import a_package_that_nobody_has.part


def norm(gradients):
    return a_package_that_nobody_has.part.norm(gradients)
