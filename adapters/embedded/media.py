"""Flags of llama-server b11549 for images, sound and video."""

from adapters.embedded.kind import Flag, directory, inverse, toggle, value
from adapters.embedded.value import plain, real, whole

MEDIA: tuple[Flag, ...] = (
    value("-mm --mmproj", "FILE", "mmproj.path", plain, "LLAMA_ARG_MMPROJ"),
    inverse("--mmproj-auto", "--no-mmproj --no-mmproj-auto", "no_mmproj", "LLAMA_ARG_MMPROJ_AUTO"),
    toggle(
        "--mmproj-offload",
        "--no-mmproj-offload",
        "mmproj_use_gpu",
        "LLAMA_ARG_MMPROJ_OFFLOAD",
    ),
    value("-mmdev --mmproj-device", "DEVICE", "mmproj_device", plain, "MTMD_BACKEND_DEVICE"),
    value("--image-min-tokens", "N", "image_min_tokens", whole, "LLAMA_ARG_IMAGE_MIN_TOKENS"),
    value("--image-max-tokens", "N", "image_max_tokens", whole, "LLAMA_ARG_IMAGE_MAX_TOKENS"),
    value(
        "--mtmd-batch-max-tokens",
        "N",
        "mtmd_batch_max_tokens",
        whole,
        "LLAMA_ARG_MTMD_BATCH_MAX_TOKENS",
    ),
    value("--video-fps", "N", "video_fps", real, "LLAMA_ARG_VIDEO_FPS"),
    value(
        "--video-timestamp-interval",
        "N",
        "video_timestamp_interval_ms",
        whole,
        "LLAMA_ARG_VIDEO_TIMESTAMP_INTERVAL",
    ),
    value("--video-ffmpeg-dir", "DIR", "video_ffmpeg_bin_dir", plain, "LLAMA_ARG_VIDEO_FFMPEG_DIR"),
    directory("--media-path", "media_path"),
)
