// Package schema describes objects that are printed as JSON, by the Go types that print them. A
// member has the name and the type of a field, the field's tag doc as its description, and the
// words of the tag enum as its values. If the name does not tell the meaning, the description
// begins with it and a semicolon, and the guide has this part.
package schema

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
)

// Kind is a kind of object, which is printed on a line of its own.
type Kind struct {
	name  string
	verbs []string
	node  node
}

// Of returns the kind of a value that is printed by some verbs, which are separated by spaces.
func Of(name, doc, verbs string, value any) Kind {
	k := Kind{name, strings.Fields(verbs), describe(reflect.TypeOf(value))}
	k.node.Description = doc
	return k
}

// node is a schema.
type node struct {
	Description string             `json:"description,omitempty"`
	Ref         string             `json:"$ref,omitempty"`
	AnyOf       []node             `json:"anyOf,omitempty"`
	Type        any                `json:"type,omitempty"` // a string, or several in a []any
	Format      string             `json:"format,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Items       *node              `json:"items,omitempty"`
	Properties  *render.JSONObject `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	// Additional is false, or the node of members with any names.
	Additional any `json:"additionalProperties,omitempty"`
}

// Document returns a JSON Schema of draft 2020-12 with a definition for each kind, one for each
// verb, which is named stapsdt-VERB, and one for the values of events. The other strings describe
// the schema and such a value.
func Document(title, doc, value string, kinds []Kind) []byte {
	document := struct {
		Schema string            `json:"$schema"`
		Title  string            `json:"title"`
		Doc    string            `json:"description"`
		AnyOf  []node            `json:"anyOf"`
		Defs   render.JSONObject `json:"$defs"`
	}{Schema: "https://json-schema.org/draft/2020-12/schema", Title: title, Doc: doc}
	verbs := map[string][]node{}
	var names []string
	for _, k := range kinds {
		add(&document.Defs, k.name, k.node)
		for _, verb := range k.verbs {
			name := "stapsdt-" + verb
			if verbs[name] == nil {
				names = append(names, name)
			}
			verbs[name] = append(verbs[name], reference(k.name))
		}
	}
	add(&document.Defs, values, node{Description: value})
	slices.Sort(names)
	for _, name := range names {
		document.AnyOf = append(document.AnyOf, reference(name))
		add(&document.Defs, name, node{AnyOf: verbs[name]})
	}
	b, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		panic(err) // impossible: all types can be encoded
	}
	for _, flat := range []*regexp.Regexp{list(), member()} {
		b = flat.ReplaceAllFunc(b, func(found []byte) []byte {
			return bytes.Join(bytes.Fields(found), []byte(" "))
		})
	}
	return append(b, '\n')
}

// list matches an array of words, and member an object without other objects. Each has a line of
// its own in a document.
var (
	list   = lazyregexp.New(`\[[^\[\]{}]*\]`)
	member = lazyregexp.New(`\{[^{}]*\}`)
)

func reference(name string) node { return node{Ref: "#/$defs/" + name} }

// add adds a member to an object.
func add(to *render.JSONObject, name string, n node) {
	b, err := json.Marshal(n)
	if err != nil {
		panic(err) // impossible: all types can be encoded
	}
	to.Names, to.Values = append(to.Names, name), append(to.Values, b)
}

// special are the schemas of types that are not printed as their kind of Go type is.
var special = map[reflect.Type]node{
	reflect.TypeFor[time.Time]():         {Type: "string", Format: "date-time"},
	reflect.TypeFor[big.Int]():           {Type: "integer"},
	reflect.TypeFor[json.Number]():       {Type: "number"},
	reflect.TypeFor[json.RawMessage]():   reference(values),
	reflect.TypeFor[render.JSONObject](): {Type: "object", Additional: reference(values)},
}

// values is the definition of a value of an event.
const values = "value"

// describe returns the schema of a type.
func describe(t reflect.Type) node {
	if n, ok := special[t]; ok {
		return n
	}
	switch t.Kind() {
	case reflect.Pointer:
		return describe(t.Elem())
	case reflect.Struct:
		return object(t)
	case reflect.Slice:
		items := describe(t.Elem())
		return node{Type: "array", Items: &items}
	case reflect.Map:
		return node{Type: "object", Additional: describe(t.Elem())}
	case reflect.String:
		return node{Type: "string"}
	case reflect.Bool:
		return node{Type: "boolean"}
	case reflect.Float64:
		return node{Type: "number"}
	case reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return node{Type: "integer"}
	}
	panic("no schema describes " + t.String())
}

// object returns the schema of a struct. A member is null if its field is a nil pointer, and
// optional if its field is omitted when it is empty or is in a struct that may be nil.
func object(t reflect.Type) node {
	o := node{Type: "object", Properties: &render.JSONObject{}, Additional: false}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue // it is a struct whose fields are members, or is not printed
		}
		n := describe(f.Type)
		n.Description, n.Enum = f.Tag.Get("doc"), strings.Fields(f.Tag.Get("enum"))
		if options == "" && f.Type.Kind() == reflect.Pointer {
			n.Type = []any{n.Type, "null"}
		}
		if options == "" && !isInPointer(t, f.Index) {
			o.Required = append(o.Required, name)
		}
		add(o.Properties, name, n)
	}
	return o
}

// isInPointer reports whether a field is in an embedded pointer.
func isInPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}
