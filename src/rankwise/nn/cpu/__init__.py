"""Training steps that are faster on a CPU than what autograd makes of the plain formulas.

Why: with short sequences, many small heads or wide feed-forwards a CPU waits for memory and for thousands of small
calls, not for arithmetic. The kernels here keep what is used twice in cache and put the wide side of every product in
rows; their gradients are written by hand. They use three private names of torch (``torch._softmax_backward_data``,
``torch._C._are_functorch_transforms_active``, ``torch.ops.aten.threshold_backward``), which stand nowhere else.

Fallback: ``gate.hand_gradients_apply`` says when a kernel may be used. On other devices, under ``torch.compile``,
``torch.export`` or ``torch.func``, and where second derivatives are asked for, the plain formulas run instead and give
the same numbers (tests/nn/cpu).
"""
