package bpf

const stackPointer = "%rsp"
