// SPDX-License-Identifier: GPL-2.0-only
//
// A few ns-3 functions are redefined in this program. The dynamic linker binds ns-3's own calls to
// our definitions, because the executable comes first in the search order; the library's definition
// is then the next one in that order.
#pragma once

#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

namespace harness
{

/// The library's definition of a function that this program has redefined, by its linker name.
template <typename Function>
Function
NextDefinition(const char* symbol)
{
    void* address = dlsym(RTLD_NEXT, symbol);
    if (!address)
    {
        std::fprintf(stderr, "this ns-3 has no %s\n", symbol);
        std::abort();
    }
    return reinterpret_cast<Function>(address);
}

} // namespace harness
