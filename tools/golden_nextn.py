"""The layer after the last of a golden case, which predicts the token after the next: its weights and its logits.

transformers has no class for it. The layer itself is one of the model's; what is around it is written down here from
DeepSeek-V3's report (arXiv 2412.19437, section 2.2), with the states after the last norm, as GLM-4.5 and Qwen3-Next are
trained. States are rounded to f16, as they are kept.
"""

import copy

import numpy as np
import torch

from golden_common import VOCAB


def follower(token):
    """What mostly follows a token in a case that can be predicted: all ordinary ones in a circle."""
    return 3 + (token - 3 + 7) % (VOCAB - 4)


def make_predictable(model):
    """Has each token mostly follow from the one before: little comes from anything but its embedding."""
    embedding, output = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    with torch.no_grad():
        output *= 0.1
        for token in range(3, VOCAB - 1):
            output[follower(token)] += (3 * embedding[token] / embedding[token].norm()).half().float()
        output.copy_(output.half().float())
        for name, x in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight", "down_proj", "out_proj.weight")):
                x.copy_((0.15 * x).half().float())


class Nextn:
    """The layer and its norms, with the weights that `random_parameter` gives them."""

    def __init__(self, case, model, random_parameter):
        trunk, config = model.model, copy.deepcopy(model.config)
        self.model, self.number, width = model, config.num_hidden_layers, config.hidden_size
        for name, kind in [("layer_types", "full_attention"), ("mlp_layer_types", "sparse")]:
            if getattr(config, name, None):
                setattr(config, name, [*getattr(config, name), kind])
        config.num_hidden_layers += 1
        self.layer = type(trunk.layers[-1])(config, self.number).eval()
        norm = lambda: type(trunk.norm)(width, eps=config.rms_norm_eps)
        self.own = torch.nn.ModuleDict({
            "enorm": norm(), "hnorm": norm(), "shared_head_norm": norm(),
            "eh_proj": torch.nn.Linear(2 * width, width, bias=False)})
        biases = {k: v for k, v in self.layer.named_buffers() if k.endswith("score_correction_bias")}
        with torch.no_grad():
            for prefix, module, more in [("", self.layer, biases), ("nextn.", self.own, {})]:
                for name, x in (dict(module.named_parameters()) | more).items():
                    value = random_parameter(case, f"model.layers.{self.number}.{prefix}{name}", tuple(x.shape))
                    x.copy_(torch.from_numpy(value))
            # What is read is mostly the token.
            self.own["eh_proj"].weight *= 0.2
            self.own["eh_proj"].weight[:, :width] += torch.eye(width)
            for name, x in [*self.layer.named_parameters(), *self.own.named_parameters()]:
                scale = 0.15 if name.endswith(("o_proj.weight", "down_proj.weight", "down_proj")) else 1.0
                x.copy_((scale * x).half().float())

    def parameters(self):
        """Names as a folder of transformers has them, or GGUF's for what that has not, and arrays."""
        own = {f"blk.{self.number}.nextn.{k}": v for k, v in self.own.state_dict().items()}
        layer = {f"model.layers.{self.number}.{k}": v for k, v in self.layer.state_dict().items()}
        return {k: v.numpy() for k, v in (layer | own).items()}

    def folder(self):
        """Names and tensors as folders have them: Qwen's call the layer `mtp`, others number it."""
        mtp = "Qwen" in type(self.model).__name__
        layer = "mtp.layers.0." if mtp else f"model.layers.{self.number}."
        own = {"eh_proj": "mtp.fc", "enorm": "mtp.pre_fc_norm_embedding", "hnorm": "mtp.pre_fc_norm_hidden",
               "shared_head_norm": "mtp.norm"} if mtp else {
            k: layer + k.replace("head_norm", "head.norm") for k in self.own}
        found = {f"{own[k]}.weight": module.weight for k, module in self.own.items()}
        for name, x in self.layer.state_dict().items():
            if name.endswith("experts.gate_up_proj"):
                for expert, both in enumerate(x):
                    for part, half in zip(("gate", "up"), both.chunk(2)):
                        found[f"{layer}mlp.experts.{expert}.{part}_proj.weight"] = half
            elif name.endswith("experts.down_proj"):
                found |= {f"{layer}mlp.experts.{e}.down_proj.weight": one for e, one in enumerate(x)}
            else:
                found[layer + name] = x
        return {name: x.detach().half().contiguous() for name, x in found.items()}

    @torch.no_grad()
    def logits(self, tokens):
        """Those of what follows the tokens at 1, 2, … the last, and then of what follows the best after that, which the layer
        predicts from its own state: (tokens, vocabulary)."""
        trunk = self.model.model
        states = trunk(torch.tensor([tokens]), use_cache=False).last_hidden_state[0]
        joined = self.join(tokens[1:], states[:-1])
        known = self.run(joined)
        best = int(self.model.lm_head(known[-1]).argmax())
        last = self.run(torch.cat([joined, self.join([best], known[-1:])]))[-1:]
        return self.model.lm_head(torch.cat([known, last])).float().numpy()

    def join(self, tokens, states):
        embedded = self.model.get_input_embeddings().weight[tokens]
        both = self.own["enorm"](embedded), self.own["hnorm"](states.half().float())
        return self.own["eh_proj"](torch.cat(both, -1))

    def run(self, joined):
        """States after the norm; the first row stands at position 1 and sees itself alone."""
        n = len(joined)
        places = torch.arange(1, n + 1)[None]
        hidden = torch.full((n, n), torch.finfo(torch.float32).min).triu(1)[None, None]
        turned = self.model.model.rotary_emb(joined[None], places)
        out = self.layer(joined[None], attention_mask=hidden, position_ids=places, position_embeddings=turned)
        out = out[0] if isinstance(out, tuple) else out
        return self.own["shared_head_norm"](out[0])
