package main

import (
	"strconv"
	"strings"
)

// function is the value of (def name (parameters) body).
type function struct {
	name       string
	parameters []any
	body       any
	line       int32
}

// thread runs a program. The ID is unique: it lets tracers find the calls that belong
// together.
type thread struct {
	probes
	file      string
	line      int32
	id        uint64
	functions map[string]function
}

// call calls a function, and fires the probes when it begins and ends.
func (t *thread) call(f function, args []int) int {
	t.entry.Fire(t.file, f.name, f.line, t.id)
	defer t.ret.Fire(t.file, f.name, f.line, t.id) // also if it panics
	variables := map[string]int{}
	for i, n := range args {
		variables[f.parameters[i].(string)] = n
	}
	return t.eval(f.body, variables)
}

// run runs the next line of the program. It panics if the line is wrong.
func (t *thread) run(text string) int {
	t.line++
	text = strings.NewReplacer("(", " ( ", ")", " ) ").Replace(text)
	code, _ := parse(strings.Fields(text))
	if list, ok := code.([]any); ok && list[0] == "def" {
		t.functions[list[1].(string)] = function{list[1].(string), list[2].([]any), list[3], t.line}
		return 0
	}
	return t.call(function{"main", nil, code, t.line}, nil)
}

func parse(words []string) (code any, rest []string) {
	if words[0] != "(" {
		return words[0], words[1:]
	}
	list := []any{}
	for words = words[1:]; words[0] != ")"; list = append(list, code) {
		code, words = parse(words)
	}
	return list, words[1:]
}

func (t *thread) eval(code any, variables map[string]int) int {
	list, ok := code.([]any)
	if !ok {
		if n, err := strconv.Atoi(code.(string)); err == nil {
			return n
		}
		return variables[code.(string)]
	}
	name := list[0].(string)
	if name == "if" { // the condition is true if it is not negative
		if t.eval(list[1], variables) >= 0 {
			return t.eval(list[2], variables)
		}
		return t.eval(list[3], variables)
	}
	var args []int
	for _, code := range list[1:] {
		args = append(args, t.eval(code, variables))
	}
	switch f, defined := t.functions[name]; {
	case defined:
		return t.call(f, args)
	case name == "+":
		return args[0] + args[1]
	case name == "-":
		return args[0] - args[1]
	}
	panic("no function " + name)
}
