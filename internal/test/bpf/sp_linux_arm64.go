package bpf

const stackPointer = "sp"
