# Locates what the CUDA plugin needs; only included with RG_CUDA=ON.
include_guard(GLOBAL)
