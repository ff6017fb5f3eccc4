require "stapsdt"

$stdout.sync = true

def refused(name)
  yield
  puts "#{name} accepted"
rescue StandardError => error
  puts "#{name} #{error.class}"
end

app = Stapsdt::Provider.new("languages")
values = app.probe("values", text: :string, byte: :uint8, tiny: :int8, number: :int32, big: :uint64, low: :int64)
texts = app.probe("texts", left: :string, right: :string)
none = app.probe("none")
refused("nameless") { Stapsdt::Provider.new("") }
refused("many") { app.probe("many", **(0...13).to_h { |i| [:"a#{i}", :uint8] }) }
values.fire("not loaded", 1, 1, 1, 1, 1)
[-> { Stapsdt::Provider.new(5) }, -> { app.probe(4096) }].each do |address| # which a C function would read
  address.call
  abort "an integer is taken for a name"
rescue TypeError
end
app.load

wrong = lambda do
  refused("late") { app.probe("late") }
  refused("count") { texts.fire("one") }
  refused("text") { texts.fire("one", 2) }
  refused("number") { values.fire("one", "2", 3, 4, 5, 6) }
  refused("large") { values.fire("one", 256, 3, 4, 5, 6) }
  refused("small") { values.fire("one", 2, -129, 4, 5, 6) }
  refused("fraction") { values.fire("one", 2, 3.5, 4, 5, 6) }
end

puts "enabled #{values.enabled?}"
wrong.call
puts "ready"
$stdin.gets
puts "enabled #{values.enabled?}"
wrong.call
values.fire("grüße", 200, -100, -2000000000, 9007199254740993, -9007199254740993)
none.fire
50.times { |i| texts.fire("left " * 10 + i.to_s, "right " * 8 + i.to_s) }
puts "fired"
$stdin.gets
puts "enabled #{values.enabled?}"
app.unload
none.fire
app.load
exit 3 if ARGV[0] == "exit"
raise "thrown" if ARGV[0] == "throw"
