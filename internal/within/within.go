// Package within lets package span look through the contexts of this module's other packages. It
// looks through those of package context, and calls no method of any other.
package within

import "context"

// Parent is the context that another one is derived from.
type Parent struct{ Context context.Context }

// Context is a context of this module. No other module can have one, because it cannot name
// the type Parent.
type Context interface {
	context.Context
	Within() Parent
}
