package expr

import (
	"go/constant"

	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// takesUnits reports whether both operands of an operation must be durations if one is.
func takesUnits(op Op) bool { return op >= Equal && op <= Sub }

// unitless returns an error if a duration meets one in quotes, or a number without a unit, other
// than 0. Go takes such a number for nanoseconds, which few users intend.
func (c *checker) unitless(d, number operand) error {
	isDuration := d.typ.Unit == kind.Nanoseconds
	if isDuration && number.val != nil && number.val.Kind() == constant.String {
		if text := constant.StringVal(number.val); durationLiteral().MatchString(text) {
			return c.errorf(number.pos, "a duration has no quotes: %s instead of %s", text, number.text)
		}
	}
	if !isDuration || !number.untyped || number.named || !number.numeric() ||
		constant.Sign(number.val) == 0 {
		return nil
	}
	const form = "%s is a duration, but %s has no unit: give %s%s for %s, or %[3]sms for milliseconds"
	if v := constant.ToInt(number.val); v.Kind() == constant.Int {
		return c.errorf(number.pos, form, d.text, number.text, v.ExactString(), "ns", "nanoseconds")
	}
	return c.errorf(number.pos, form, d.text, number.text, number.val.String(), "s", "seconds")
}
