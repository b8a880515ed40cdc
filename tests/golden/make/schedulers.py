# SPDX-License-Identifier: Apache-2.0
"""Runs of diffusers' schedulers on a fixed stand-in for a model: tests/golden/diffusion/schedulers.json, and those that
ask for timesteps or noise levels of their own, schedulers-asked.json; schedulers-more.json has further classes.

Option sets are drawn with a seed of the class; those that diffusers itself refuses, or that end in no number, are drawn again.
"""

import inspect
import json
import random
import warnings

import diffusers
import torch

CASES = 8
BETAS = dict(
    num_train_timesteps=[1000, 1000, 200],
    beta_start=[0.0001, 0.00085],
    beta_end=[0.02, 0.012],
    beta_schedule=["linear", "scaled_linear", "squaredcos_cap_v2"],
)
SPACING = dict(timestep_spacing=["linspace", "leading", "trailing"], steps_offset=[0, 1])
PREDICTION = ["epsilon", "sample", "v_prediction"]
BOUNDS = dict(thresholding=[False, False, True], dynamic_thresholding_ratio=[0.9, 0.995], sample_max_value=[1.0, 1.5])
CLIPS = dict(clip_sample=[True, False], clip_sample_range=[1.0, 2.0])
FORMS = [{}, {}, {"use_karras_sigmas": True}, {"use_exponential_sigmas": True}, {"use_beta_sigmas": True}]
OPTIONS = {
    "DDPMScheduler": dict(
        BETAS,
        **SPACING,
        **BOUNDS,
        **CLIPS,
        prediction_type=PREDICTION,
        beta_schedule=["linear", "scaled_linear", "squaredcos_cap_v2", "sigmoid", "laplace"],
        variance_type=["fixed_small", "fixed_small_log", "fixed_large", "learned", "learned_range"],
        rescale_betas_zero_snr=[False, False, True],
    ),
    "DDIMScheduler": dict(
        BETAS, **SPACING, **BOUNDS, **CLIPS, prediction_type=PREDICTION, set_alpha_to_one=[True, False], rescale_betas_zero_snr=[False, False, True]
    ),
    "PNDMScheduler": dict(BETAS, **SPACING, prediction_type=["epsilon", "v_prediction"], set_alpha_to_one=[True, False], skip_prk_steps=[True, False]),
    "EulerDiscreteScheduler": dict(
        BETAS,
        **SPACING,
        prediction_type=PREDICTION,
        interpolation_type=["linear", "linear", "log_linear"],
        timestep_type=["discrete", "continuous"],
        final_sigmas_type=["zero", "sigma_min"],
        rescale_betas_zero_snr=[False, False, True],
        sigma_min=[None, 0.05],
        sigma_max=[None, 12.0],
        forms=FORMS,
    ),
    "EulerAncestralDiscreteScheduler": dict(BETAS, **SPACING, prediction_type=["epsilon", "v_prediction"], rescale_betas_zero_snr=[False, True]),
    "HeunDiscreteScheduler": dict(
        BETAS, **SPACING, **CLIPS, prediction_type=PREDICTION, beta_schedule=["linear", "scaled_linear", "squaredcos_cap_v2", "exp"], forms=FORMS
    ),
    "DPMSolverMultistepScheduler": dict(
        BETAS,
        **SPACING,
        **BOUNDS,
        prediction_type=PREDICTION,
        solver_order=[1, 2, 2, 3],
        algorithm_type=["dpmsolver++", "dpmsolver++", "sde-dpmsolver++", "dpmsolver", "sde-dpmsolver"],
        solver_type=["midpoint", "heun"],
        lower_order_final=[True, False],
        euler_at_final=[False, True],
        final_sigmas_type=["zero", "sigma_min"],
        lambda_min_clipped=[-5.1, -float("inf")],
        rescale_betas_zero_snr=[False, False, True],
        forms=FORMS + [{"use_lu_lambdas": True}, {"use_flow_sigmas": True, "prediction_type": "flow_prediction", "flow_shift": 3.0}],
    ),
    "UniPCMultistepScheduler": dict(
        BETAS,
        **SPACING,
        **BOUNDS,
        prediction_type=PREDICTION,
        solver_order=[1, 2, 2, 3],
        predict_x0=[True, True, False],
        solver_type=["bh1", "bh2"],
        lower_order_final=[True, False],
        disable_corrector=[[], [0, 2]],
        final_sigmas_type=["zero", "sigma_min"],
        rescale_betas_zero_snr=[False, False, True],
        forms=FORMS
        + [{"use_flow_sigmas": True, "prediction_type": "flow_prediction", "flow_shift": 3.0, "shift_terminal": 0.02}]
        + [{"use_flow_sigmas": True, "prediction_type": "flow_prediction", "use_dynamic_shifting": True}],
    ),
    "LCMScheduler": dict(
        BETAS, **BOUNDS, **CLIPS, prediction_type=PREDICTION, original_inference_steps=[50, 40], timestep_scaling=[10.0, 3.0], num_train_timesteps=[1000]
    ),
    "FlowMatchEulerDiscreteScheduler": dict(
        num_train_timesteps=[1000, 200],
        shift=[1.0, 3.0],
        use_dynamic_shifting=[False, True],
        invert_sigmas=[False, False, True],
        shift_terminal=[None, 0.02],
        time_shift_type=["exponential", "linear"],
        stochastic_sampling=[False, True],
        forms=FORMS,
    ),
    "EDMEulerScheduler": dict(
        sigma_min=[0.002, 0.01],
        sigma_max=[80.0, 20.0],
        sigma_data=[0.5, 1.0],
        sigma_schedule=["karras", "exponential"],
        prediction_type=["epsilon", "v_prediction"],
        rho=[7.0, 5.0],
        final_sigmas_type=["zero", "sigma_min"],
    ),
}


SIGMAS = dict(BETAS, **SPACING, prediction_type=["epsilon", "v_prediction"], forms=FORMS)
MORE_OPTIONS = {"LMSDiscreteScheduler": dict(SIGMAS, prediction_type=PREDICTION), "KDPM2DiscreteScheduler": SIGMAS, "KDPM2AncestralDiscreteScheduler": SIGMAS}


def numbers(tensor):
    return [float(f"{float(value):.7g}") for value in tensor.double().flatten()]


def stand_in(sample, timestep, twice):
    """A half of the sample and waves over its places; twice: channels of variances behind it."""
    places = torch.arange(sample[0].numel(), dtype=torch.float32).reshape(sample[0].shape)
    output = 0.5 * sample + 0.1 * torch.cos(places + float(timestep) / 100)
    return torch.cat([output, 0.05 + 0.01 * torch.sin(places).expand_as(sample)], 1) if twice else output


def run(name, config, steps, shape, seed, mu, eta, asked=None):
    scheduler = getattr(diffusers, name)(**config)
    arguments = inspect.signature(scheduler.set_timesteps).parameters
    asked = {**(asked or {}), **({"mu": mu} if "mu" in arguments and mu is not None else {})}
    scheduler.set_timesteps(*([] if "timesteps" in asked or "sigmas" in asked else [steps]), **asked)
    generator = torch.Generator().manual_seed(seed)
    deviation = float(getattr(scheduler, "init_noise_sigma", 1.0))
    sample = torch.randn(shape, generator=generator) * deviation
    kept = {"deviation": deviation, "start": numbers(sample), "path": []}
    parameters = inspect.signature(scheduler.step).parameters
    extra = {key: value for key, value in (("generator", generator), ("eta", eta)) if key in parameters}
    twice = config.get("variance_type") in ("learned", "learned_range")
    for timestep in scheduler.timesteps:
        scaled = scheduler.scale_model_input(sample, timestep) if hasattr(scheduler, "scale_model_input") else sample
        sample = scheduler.step(stand_in(scaled, timestep, twice), timestep, sample, **extra, return_dict=False)[0]
        kept["path"].append(numbers(sample)[:3])
    kept["end"] = numbers(sample)
    kept["timesteps"] = numbers(scheduler.timesteps)
    kept["sigmas"] = numbers(scheduler.sigmas) if hasattr(scheduler, "sigmas") and name not in NO_SIGMAS else []
    if not bool(torch.isfinite(sample).all()) or float(sample.abs().max()) > 1e4:
        raise ValueError("no number")
    return kept


ASKED = [
    ("DDPMScheduler", {"variance_type": "fixed_large"}, {"timesteps": [981, 700, 300, 20]}),
    ("EulerDiscreteScheduler", {"beta_schedule": "scaled_linear"}, {"timesteps": [999, 850, 100, 3]}),
    ("EulerDiscreteScheduler", {"prediction_type": "v_prediction", "use_karras_sigmas": True}, {"sigmas": [14.6, 3.2, 0.7, 0.05]}),
    ("HeunDiscreteScheduler", {}, {"timesteps": [950, 500, 40]}),
    ("DPMSolverMultistepScheduler", {"solver_order": 3}, {"timesteps": [999, 760, 500, 260, 0]}),
    ("LCMScheduler", {}, {"timesteps": [999, 759, 499]}),
    ("LCMScheduler", {}, {"timesteps": [999, 759, 499, 259], "strength": 0.6}),
    ("FlowMatchEulerDiscreteScheduler", {"use_dynamic_shifting": True, "shift_terminal": 0.1}, {"sigmas": [1.0, 0.8, 0.35]}),
    ("FlowMatchEulerDiscreteScheduler", {"shift": 3.0, "use_beta_sigmas": True}, {"sigmas": [0.9, 0.5, 0.2, 0.1]}),
]
NO_SIGMAS = ("DDPMScheduler", "DDIMScheduler", "PNDMScheduler", "LCMScheduler")


def draw(name, random_):
    config = {}
    for key, values in {**OPTIONS, **MORE_OPTIONS}[name].items():
        value = random_.choice(values)
        if key == "forms":
            config.update(value)
        elif value is not None and value != -float("inf") and random_.random() < 0.7:
            config[key] = value
    return config


def make(out):
    warnings.filterwarnings("ignore")
    diffusers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    write(out, "schedulers.json", drawn(OPTIONS, CASES))
    write(out, "schedulers-more.json", drawn(MORE_OPTIONS, 5))
    cases = []
    for seed, (name, config, asked) in enumerate(ASKED):
        mu, shape = 0.8 if config.get("use_dynamic_shifting") else None, [1, 3, 2, 2]
        case = {"class": name, "config": config, "asked": asked, "steps": 4, "shape": shape, "seed": seed, "mu": mu, "eta": 0.0}
        cases.append({**case, **run(name, config, 4, shape, seed, mu, 0.0, asked)})
    write(out, "schedulers-asked.json", cases)


def drawn(options, count):
    cases = []
    for name in options:
        random_, made = random.Random(name), 0
        while made < count:
            config = draw(name, random_)
            steps, seed = random_.choice([1, 3, 5, 7, 16]), random_.randrange(1 << 32)
            shape = random_.choice([[1, 3, 2, 2], [1, 3, 2, 2], [2, 3, 2, 3]])
            dynamic = config.get("use_dynamic_shifting", False)
            mu, eta = (0.8 if dynamic else None), random_.choice([0.0, 0.0, 0.7])
            try:
                kept = run(name, config, steps, shape, seed, mu, eta)
            except (ValueError, IndexError, AssertionError, NotImplementedError, UnboundLocalError, RuntimeError, ZeroDivisionError):
                continue
            cases.append({"class": name, "config": config, "steps": steps, "shape": shape, "seed": seed, "mu": mu, "eta": eta, **kept})
            made += 1
    return cases


def write(out, name, cases):
    folder = out / "diffusion"
    folder.mkdir(parents=True, exist_ok=True)
    text = ",\n".join(json.dumps(case) for case in cases)
    (folder / name).write_text(f'{{"diffusers": "{diffusers.__version__}", "cases": [\n{text}\n]}}\n')
