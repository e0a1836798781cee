from dataclasses import dataclass


@dataclass
class TrainingArguments:
    output_dir: str
    max_steps: int = -1
    gradient_accumulation_steps: int = 1
    max_grad_norm: float = 1.0
    learning_rate: float = 5e-5
    weight_decay: float = 0.0
