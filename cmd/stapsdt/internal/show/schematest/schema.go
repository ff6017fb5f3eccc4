// Package schematest checks lines of JSON against a JSON Schema, and reports which members of the
// schema no line had. It knows only the keywords that the schema of "stapsdt help json" has, and
// fails at others.
package schematest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Schema is a JSON Schema. It may be used by several goroutines.
type Schema struct {
	root document
	mu   sync.Mutex
	seen map[*node]map[string]bool // the types of the values that lines had, by where
}

type document struct {
	Schema string `json:"$schema"`
	Title  string
	node
	Defs map[string]*node `json:"$defs"`
}

type node struct {
	Description string
	Ref         string `json:"$ref"`
	AnyOf       []*node
	Type        types
	Format      string
	Enum        []any
	Items       *node
	Properties  map[string]*node
	Required    []string
	// Additional is nil for false.
	Additional additional `json:"additionalProperties"`
}

// types are the words of a type, of which a schema may have one without a list.
type types []string

func (t *types) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		*t = types{""}
		return json.Unmarshal(b, &(*t)[0])
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// additional is the schema of members that are not in properties.
type additional struct {
	*node
	given bool
}

func (a *additional) UnmarshalJSON(b []byte) error {
	a.given = true
	if string(b) == "false" {
		return nil
	}
	a.node = new(node)
	return strictly(b, a.node)
}

func strictly(b []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

// Parse reads a schema. It returns an error if an object permits any member, or if a member has no
// description.
func Parse(text []byte) (*Schema, error) {
	s := &Schema{seen: map[*node]map[string]bool{}}
	if err := strictly(text, &s.root); err != nil {
		return nil, err
	}
	var problems []error
	s.each(func(path string, n *node) {
		if slices.Contains(n.Type, "object") && !n.Additional.given {
			problems = append(problems, fmt.Errorf("%s permits any member", path))
		}
		if n.Description == "" && !strings.HasSuffix(path, "[]") {
			problems = append(problems, fmt.Errorf("%s has no description", path))
		}
	})
	return s, errors.Join(problems...)
}

// each calls a function for each object of the schema and for each member, in their order.
func (s *Schema) each(visit func(path string, n *node)) {
	var walk func(path string, n *node)
	walk = func(path string, n *node) {
		visit(path, n)
		if n.Items != nil {
			walk(path+"[]", n.Items)
		}
		for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
			walk(path+"."+name, n.Properties[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.root.Defs)) {
		if n := s.root.Defs[name]; n.AnyOf == nil {
			walk(name, n)
		}
	}
}

// Unseen returns the members that no line had, and the types that the values of no line had.
func (s *Schema) Unseen() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.each(func(path string, n *node) {
		words := n.Type
		if words == nil {
			words = types{anyType}
		}
		for _, word := range words {
			if !s.seen[n][word] {
				all = append(all, path+" "+word)
			}
		}
	})
	return all
}

// Check returns an error unless a line is one of those that a verb prints. If the verb is "", it is
// one that any verb prints.
func (s *Schema) Check(verb, line string) error {
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return err
	}
	n := &s.root.node
	if verb != "" {
		n = &node{Ref: "#/$defs/stapsdt-" + verb}
	}
	var seen []sight
	if err := s.check(n, v, "", &seen); err != nil {
		return fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range seen {
		if s.seen[one.node] == nil {
			s.seen[one.node] = map[string]bool{}
		}
		s.seen[one.node][one.word] = true
	}
	return nil
}

// anyType is in place of the types of a schema that has none.
const anyType = "any"

// sight is a value of a type at a place of the schema.
type sight struct {
	node *node
	word string
}

func (s *Schema) check(n *node, v any, path string, seen *[]sight) error {
	if n.Type == nil {
		*seen = append(*seen, sight{n, anyType})
	}
	if name, ok := strings.CutPrefix(n.Ref, "#/$defs/"); ok {
		if n = s.root.Defs[name]; n == nil {
			return fmt.Errorf("there is no definition %s", name)
		}
		if !strings.Contains(path, ".") {
			path = name
		}
		return s.check(n, v, path, seen)
	}
	if n.AnyOf != nil {
		return s.checkAny(n.AnyOf, v, path, seen)
	}
	if n.Type == nil {
		return nil
	}
	word := wordOf(v)
	if word == "integer" && slices.Contains(n.Type, "number") {
		word = "number"
	}
	*seen = append(*seen, sight{n, word})
	switch {
	case !slices.Contains(n.Type, word):
		return fmt.Errorf("%s is of type %s, not %v", path, word, n.Type)
	case n.Enum != nil && !slices.Contains(n.Enum, v):
		return fmt.Errorf("%s is %v, none of %v", path, v, n.Enum)
	case n.Format == "date-time" && word == "string":
		if _, err := time.Parse(time.RFC3339Nano, v.(string)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	switch v := v.(type) {
	case []any:
		for i := range v {
			if n.Items == nil {
				break
			}
			if err := s.check(n.Items, v[i], path+"[]", seen); err != nil {
				return err
			}
		}
	case map[string]any:
		return s.checkObject(n, v, path, seen)
	}
	return nil
}

// checkAny requires that one of several schemas describes a value. All that do have seen it.
func (s *Schema) checkAny(all []*node, v any, path string, seen *[]sight) error {
	var problems []error
	for _, one := range all {
		var own []sight
		err := s.check(one, v, path, &own)
		if problems = append(problems, err); err == nil {
			*seen = append(*seen, own...)
		}
	}
	if slices.Contains(problems, nil) {
		return nil
	}
	return errors.Join(problems...)
}

func (s *Schema) checkObject(n *node, v map[string]any, path string, seen *[]sight) error {
	for _, name := range n.Required {
		if _, ok := v[name]; !ok {
			return fmt.Errorf("%s.%s is missing", path, name)
		}
	}
	for name, value := range v {
		member := n.Properties[name]
		if member == nil {
			member = n.Additional.node
		}
		if member == nil {
			return fmt.Errorf("%s.%s is not in the schema", path, name)
		}
		if err := s.check(member, value, path+"."+name, seen); err != nil {
			return err
		}
	}
	return nil
}

// wordOf returns the word for the type of a value.
func wordOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "number"
		}
		return "integer"
	}
	return "object"
}

// Member is a member of an object.
type Member struct {
	Name, Type, Doc string
	Verbs           []string // those that print it
}

// Members returns the members of all objects.
func (s *Schema) Members() (all []Member) {
	verbs := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(s.root.Defs)) {
		if verb, ok := strings.CutPrefix(name, "stapsdt-"); ok {
			for _, n := range s.root.Defs[name].AnyOf {
				kind, _ := strings.CutPrefix(n.Ref, "#/$defs/")
				verbs[kind] = append(verbs[kind], verb)
			}
		}
	}
	s.each(func(path string, n *node) {
		kind, _, isMember := strings.Cut(path, ".")
		if isMember && !strings.HasSuffix(path, "[]") {
			name := path[strings.LastIndex(path, ".")+1:]
			all = append(all, Member{name, n.words(), n.Description, verbs[kind]})
		}
	})
	return all
}

// words returns the words for the type of a member.
func (n *node) words() string {
	switch {
	case n.Ref != "":
		return "value"
	case n.Enum != nil:
		var words []string
		for _, one := range n.Enum {
			words = append(words, fmt.Sprintf("`%s`", one))
		}
		return strings.Join(words, ", ")
	case n.Format != "":
		return "time"
	case n.Items != nil:
		return "[" + n.Items.words() + "]"
	}
	return strings.Join(n.Type, ", ")
}
