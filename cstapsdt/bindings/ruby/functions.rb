# Function probes for programs in Ruby, with the names and arguments of the interpreter's own:
#
#     ruby:method__entry(class, method, file, line)
#     ruby:method__return(class, method, file, line)
#
# An interpreter that was built with DTrace fires its own only while a TracePoint is enabled.
# To run a program with these:
#
#     LD_LIBRARY_PATH=cstapsdt/out ruby -r./cstapsdt/bindings/ruby/functions PROGRAM
#
# Methods in C are not included. An exception that leaves a method is a return. A thread asks
# every 100 ms whether a tracer is attached, and only then enables a TracePoint.

require_relative "stapsdt"

module Functions
  INTERVAL = 0.1 # seconds

  # A child that was forked has only the thread that forked it.
  module Fork
    def _fork
      super.tap { |pid| Functions.watch if pid.zero? }
    end
  end
  private_constant :Fork

  # Methods that a class may have replaced.
  NAME = Module.instance_method(:name)
  IS_SINGLETON = Module.instance_method(:singleton_class?)
  private_constant :NAME, :IS_SINGLETON

  class << self
    # Loads the probes, and begins to ask for tracers. Raises Stapsdt::Error if it cannot.
    def start
      provider = Stapsdt::Provider.new("ruby")
      arguments = { class: :string, method: :string, file: :string, line: :int32 }
      @enter = provider.probe("method__entry", **arguments)
      @leave = provider.probe("method__return", **arguments)
      provider.load
      @hook = TracePoint.new(:call, :return) { |point| fire(point) }
      watch
      Process.singleton_class.prepend(Fork)
    end

    # Reports whether the hook is enabled.
    def tracing?
      @hook.enabled?
    end

    # Begins to ask for tracers.
    def watch
      @watcher = Thread.new do
        loop do
          sleep INTERVAL
          traced = @enter.enabled? || @leave.enabled?
          @hook.public_send(traced ? :enable : :disable) if traced != tracing?
        end
      end
    end

    private

    def fire(point)
      return if Thread.current == @watcher || point.path == __FILE__
      probe = point.event == :call ? @enter : @leave
      probe.fire(owner(point), point.method_id.to_s, point.path, point.lineno)
    end

    # The class of a method. That of a class's own method is this class.
    def owner(point)
      owner = point.defined_class
      owner = point.self if IS_SINGLETON.bind_call(owner) && Module === point.self
      NAME.bind_call(owner) || ""
    end
  end
end

Functions.start
