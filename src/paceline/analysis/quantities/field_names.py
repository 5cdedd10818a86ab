"""The fields of a row in JSON and CSV, in the order that they keep."""

FIELDS = (
    *("workload", "framework", "framework_version", "machine", "machine_description", "quick", "devices"),
    *("device_count", "cards", "update", "parameter_device", "data", "input", "precision", "batch_size", "shares"),
    *("slow", "wrapped", "learning_rate", "steps", "warmup", "evaluate", "epochs", "whole_epochs", "seed"),
    *("cores_per_device", "status", "reason", "marks", "repeats", "sequential"),
    *("images_per_second", "images_per_processor_second", "seconds", "seconds_per_epoch", "first_step_seconds"),
    *("waiting", "train_accuracy", "test_accuracy", "chance", "above_chance", "evaluation_seconds"),
    *("target", "runs_at_target", "seconds_to_target", "images_to_target"),
    *("peak_memory_mib", "idle_memory_mib", "started_memory_mib", "allocator_memory_mib", "utilisation", "noise"),
    *("memory_of", "scaling_kind", "scaling", "scaling_interval", "scaling_against"),
    *("efficiency", "wrapped_efficiency", "batch_norm", "parameters", "verified", "runs", "failed_run", "log_end"),
    *("command", "images_per_second_of_runs", "memory_mib_of_runs", "test_accuracy_of_runs", "quota_cores", "remarks"),
    *("package_joules_per_image", "gpu_joules_per_image"),
)
