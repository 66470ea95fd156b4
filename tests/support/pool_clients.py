"""Clients that a pool trains, also in processes that are not forked and make them anew."""

from functools import partial

from conftest import toy_net, toy_shards

from fedcli.federation.client import Training
from fedcli.federation.engines.in_process import InProcess
from fedcli.models.layout import Layout

TRAINING = Training(optimizer="sgd", lr=0.1, momentum=0.0, weight_decay=0.0, batch_size=8)


def clients_of(method):
    net = toy_net(extend=method.local.extend)
    layout = Layout(net, method.local.personal_tensors(net))
    remake = partial(again, method)
    return InProcess(method, net, layout, toy_shards(), TRAINING, remake=remake)


def again(method, device, threads, sharing):
    return clients_of(method)
