// Package operation has what package span and the packages in instrument/ share: the contexts
// of operations, their trace contexts, and the texts of their errors. Of the program's values
// it calls one method only, Error.
package operation

import "context"

// Parent is the context that another one is derived from.
type Parent struct{ Context context.Context }

// Context is a context of this module. Package span, which looks through the contexts of
// package context and calls no method of any other, looks through it too. No other module can
// have one, because it cannot name the type Parent.
type Context interface {
	context.Context
	Within() Parent
}
