# USDT probes for Ruby, through libstapsdt.so.0 and Fiddle.
#
#     app = Stapsdt::Provider.new("myapp")
#     done = app.probe("request__done", path: :string, status: :int32)
#     app.load
#     done.fire("/index.html", 200)
#
# Build the library with make -C cstapsdt, and put its directory into LD_LIBRARY_PATH,
# or install the library.

require "fiddle"

module Stapsdt
  # An error of the library, with its text.
  class Error < StandardError; end

  # A type of arguments: the library's number, how Array#pack writes a word, and the values.
  Type = Struct.new(:number, :pack, :values)

  # A string is passed as the address of bytes that end with a NUL: str(arg0) in bpftrace.
  TYPES = { string: Type.new(16, "p", String) }
  [8, 16, 32, 64].each do |bits|
    TYPES[:"uint#{bits}"] = Type.new(bits / 8, "Q", 0...1 << bits)
    TYPES[:"int#{bits}"] = Type.new(-bits / 8, "q", -(1 << bits - 1)...1 << bits - 1)
  end
  TYPES.freeze

  # The functions of the library. They keep the interpreter's lock, so that no thread can
  # unload a provider while another fires its probe.
  module Library
    handle = Fiddle.dlopen("libstapsdt.so.0")
    pointer, int, void = Fiddle::TYPE_VOIDP, Fiddle::TYPE_INT, Fiddle::TYPE_VOID
    {
      providerInit: [pointer, pointer],
      providerAddNamedProbe: [pointer, pointer, pointer, int, pointer],
      providerUseMemfd: [int, pointer, int],
      providerLoad: [int, pointer],
      providerUnload: [int, pointer],
      providerError: [pointer, pointer],
      probeFireV: [void, pointer, pointer],
      probeIsEnabled: [int, pointer],
    }.each do |name, (result, *arguments)|
      function = Fiddle::Function.new(handle[name.to_s], arguments, result, need_gvl: true)
      define_singleton_method(name) { |*values| function.call(*values) }
    end
  end
  private_constant :Library

  # A set of probes that are loaded together. It is unloaded when the program ends, and lives as
  # long as the program.
  class Provider
    MEMFD_DISABLED = 0
    private_constant :MEMFD_DISABLED

    def initialize(name)
      check_name name
      @provider = Library.providerInit(name)
      raise Error, "no provider #{name.inspect}" if @provider.null?
      # In a file, because bpftrace -p from 0.25 on does not find probes in memory.
      check Library.providerUseMemfd(@provider, MEMFD_DISABLED) == 1
    end

    # Adds a probe with the types of its arguments. The provider must not be loaded.
    def probe(name, **arguments)
      check_name name
      types = arguments.transform_keys(&:to_s).transform_values { |type| TYPES.fetch(type) }
      array = types.flat_map { |argument, type| [argument, type.number] }.pack("pix4" * types.size)
      probe = Library.providerAddNamedProbe(@provider, name, types.size, array)
      check !probe.null?
      Probe.new(self, probe, name, types.values)
    end

    # Shows the probes to tracers.
    def load
      check Library.providerLoad(@provider).zero?
      @ending ||= at_exit { unload }
    end

    # Hides the probes, and removes their file. They can be fired, but do nothing.
    def unload
      check Library.providerUnload(@provider).zero?
    end

    private

    def check_name(name) # for which Fiddle would take an address
      raise TypeError, "the name #{name.inspect} is no String" unless String === name
    end

    def check(good)
      raise Error, Library.providerError(@provider).to_s unless good
    end
  end

  # A probe. Provider#probe returns one.
  class Probe
    def initialize(provider, pointer, name, types)
      @provider = provider # owns the probe, and must live as long
      @pointer, @name, @types = pointer, name, types
      @format = types.map(&:pack).join
    end

    # Reports whether a tracer is attached, or the probe is recorded or watched.
    def enabled?
      Library.probeIsEnabled(@pointer) == 1
    end

    # Reports an event. The values are checked whether a tracer is attached or not, so that a
    # wrong one raises its exception in tests too.
    def fire(*values)
      if values.size != @types.size
        raise ArgumentError, "#{@name} takes #{@types.size} arguments, but #{values.size} were given"
      end
      values.each_with_index { |value, i| check(@types[i], value) }
      # The packed words keep the strings.
      Library.probeFireV(@pointer, values.pack(@format)) if enabled?
    end

    private

    def check(type, value)
      kind = type.pack == "p" ? String : Integer
      raise TypeError, "#{@name}: #{value.inspect} is no #{kind}" unless kind === value
      raise RangeError, "#{@name}: #{value} is no #{TYPES.key(type)}" unless type.values === value
    end
  end
end
