#pragma once
#include "common/error.h"
#include "mem_manager/device.h"
#include "mem_manager/device_plugin.h"

namespace refactor::mem_manager {

/// A table of a device's plugin, or null. Throws `DeviceError` if the plugin has it in another version.
template <class Table>
Table const* extension_of(Device const& device, char const* name) {
    auto const* table = static_cast<Table const*>(device.extension(name));
    if (table && table->bytes < sizeof(Table))
        throw DeviceError(device.name() + ": its table " + name + " has " + std::to_string(table->bytes) +
                          " bytes, expected " + std::to_string(sizeof(Table)));
    return table;
}

/// Throws what a function of a plugin reported: `OutOfMemory` or `DeviceError`.
[[noreturn]] void throw_device_error(Device const& device, char const* call, int32_t code, char const* text);

/// Calls `function(text, bytes)`, which fills in its complaint and returns 0 or a code, and throws what it reports.
template <class F>
void checked(Device const& device, char const* call, F&& function) {
    char text[512];
    text[0] = '\0';
    if (auto code = function(text, sizeof text)) throw_device_error(device, call, code, text);
}

}  // namespace refactor::mem_manager
