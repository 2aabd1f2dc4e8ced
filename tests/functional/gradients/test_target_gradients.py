import torch

from lightning_xai.functional.gradients.target_gradients import target_gradients


def test_target_gradients_are_those_of_each_rows_own_class():
    x = torch.tensor([[2.0], [3.0]], requires_grad=True)
    logits = torch.cat([x, x**2, x**3], dim=1)
    gradients = list(target_gradients(logits, torch.tensor([[0, 2], [1, 0]]), x))
    assert torch.stack(gradients, dim=1).squeeze(-1).tolist() == [[1, 12], [6, 1]]


def test_row_weights_scale_the_rows():
    x = torch.tensor([[2.0], [3.0]], requires_grad=True)
    (gradient,) = target_gradients(x * 1, torch.zeros(2, 1).long(), x, row_weights=torch.tensor([5.0, 7.0]))
    assert gradient.flatten().tolist() == [5, 7]


def test_a_tuple_is_differentiated_by_each_of_its_tensors():
    x, y = torch.ones(1, 1, requires_grad=True), torch.ones(1, 1, requires_grad=True)
    (gradients,) = target_gradients(2 * x + 3 * y, torch.zeros(1, 1).long(), (x, y))
    assert [gradient.item() for gradient in gradients] == [2, 3]


def test_gradients_can_be_differentiated_again():
    x = torch.tensor([[2.0]], requires_grad=True)
    (gradient,) = target_gradients(x**3, torch.zeros(1, 1).long(), x, create_graph=True)
    assert torch.autograd.grad(gradient.sum(), x)[0].item() == 12  # 6 x
