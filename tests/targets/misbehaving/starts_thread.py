import threading
import time

threading.Thread(target=lambda: time.sleep(3600), daemon=True).start()

from norms import crashes_on_large, norm_of


def norm(gradients):
    return norm_of(gradients)
