// The header as a C++ program uses it, with <cerrno> before it.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <libstapsdt.h>

static_assert(offsetof(SDTProvider_t, error) == 24 && offsetof(SDTProbe_t, argCount) == 48, "layout");

struct Destroy {
	void operator()(SDTProvider_t *provider) const { providerDestroy(provider); }
};

int main()
{
	std::unique_ptr<SDTProvider_t, Destroy> app(providerInit("cppapp"));
	const std::vector<ArgType_t> types(SDT_MAX_ARGUMENTS, int64);
	SDTProbe_t *two = providerAddProbe(app.get(), "two", 2, uint64, int32);
	SDTProbe_t *twelve = providerAddProbeV(app.get(), "twelve", SDT_MAX_ARGUMENTS, types.data());

	errno = 0;
	if (!two || !twelve || providerLoad(app.get()) != 0) {
		std::fprintf(stderr, "%s\n", providerError(app.get()));
		return 1;
	}
	const std::string text = "hello";
	probeFire(two, reinterpret_cast<uint64_t>(text.c_str()), uint64_t(7));
	probeFireV(twelve, std::vector<uint64_t>(SDT_MAX_ARGUMENTS).data());
	if (probeIsEnabled(two) || probeOffset(two) <= 0 || providerLoad(app.get()) != 0)
		return 1;
	if (providerUnload(app.get()) != 0 || providerUnload(app.get()) != 0)
		return 1;
	return 0;
}
