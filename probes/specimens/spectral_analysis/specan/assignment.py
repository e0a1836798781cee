"""Which row for which column: the optimum, and the short cuts that people take."""

import torch


def optimal_order(scores_DD: torch.Tensor) -> list[int]:
    """The row for each column, each row once, with the largest sum of scores (the Hungarian method)."""
    costs = (-scores_DD.double()).tolist()
    size = len(costs)
    row_price, column_price = [0.0] * (size + 1), [0.0] * (size + 1)
    row_of, came_from = [0] * (size + 1), [0] * (size + 1)
    for row in range(1, size + 1):
        row_of[0], column = row, 0
        shortest, done = [float("inf")] * (size + 1), [False] * (size + 1)
        while row_of[column]:
            done[column] = True
            current, step, nearest = row_of[column], float("inf"), 0
            for other in range(1, size + 1):
                if done[other]:
                    continue
                length = costs[current - 1][other - 1] - row_price[current] - column_price[other]
                if length < shortest[other]:
                    shortest[other], came_from[other] = length, column
                if shortest[other] < step:
                    step, nearest = shortest[other], other
            for other in range(size + 1):
                if done[other]:
                    row_price[row_of[other]] += step
                    column_price[other] -= step
                else:
                    shortest[other] -= step
            column = nearest
        while column:
            row_of[column] = row_of[came_from[column]]
            column = came_from[column]
    return [row - 1 for row in row_of[1:]]


def greedy_order(scores_DD: torch.Tensor) -> list[int]:
    """The best row that is left, column after column: what came first is never given back."""
    left = scores_DD.clone()
    order = []
    for column in range(left.shape[1]):
        row = int(left[:, column].argmax())
        left[row] = -1.0
        order.append(row)
    return order
