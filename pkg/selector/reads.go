package selector

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// reads are the attributes and capacities of a device that an expression can see, if its syntax determines
// that. The other data that it sees (the driver, and whether the device allows multiple allocations) is the
// same for most devices and always counts as read.
type reads struct {
	attributes, capacities []read
}

// read is an attribute or a capacity.
type read struct {
	// domain is "" for the domain of the device's driver.
	domain string
	// name includes the domain, and is "" if that is the driver's; short is the name without the domain. Both
	// refer to the same attribute if the domain is the driver's.
	name, short resourceapi.QualifiedName
}

// readsOf returns what an expression reads, or nil if its syntax does not determine that: if it iterates over
// all attributes of a domain, or computes their names.
func readsOf(program *cel.CompilationResult) *reads {
	parsed, r := parse(program), new(reads)
	if parsed == nil || !r.collect(parsed) {
		return nil
	}
	return r
}

// parse returns the syntax tree of an expression, or nil if that fails.
func parse(program *cel.CompilationResult) ast.Expr {
	parsed, issues := program.Environment.Parse(program.Expression)
	if issues.Err() != nil {
		return nil
	}
	return parsed.NativeRep().Expr()
}

const deviceVariable = "device"

func isDevice(name string) bool { return strings.TrimPrefix(name, ".") == deviceVariable }

// collect adds what a part of an expression reads. It returns false if the syntax does not determine that.
func (r *reads) collect(e ast.Expr) bool {
	if r.isRead(e) {
		return true
	}
	switch e.Kind() {
	case ast.LiteralKind:
		return true
	case ast.IdentKind:
		return !isDevice(e.AsIdent()) // A reference to the device as a whole.
	case ast.SelectKind:
		return r.collect(e.AsSelect().Operand())
	case ast.CallKind:
		call := e.AsCall()
		return (!call.IsMemberFunction() || r.collect(call.Target())) && r.collectAll(call.Args()...)
	case ast.ListKind:
		return r.collectAll(e.AsList().Elements()...)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			if entry := entry.AsMapEntry(); !r.collectAll(entry.Key(), entry.Value()) {
				return false
			}
		}
		return true
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			if !r.collect(field.AsStructField().Value()) {
				return false
			}
		}
		return true
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		if isDevice(c.IterVar()) || isDevice(c.IterVar2()) || isDevice(c.AccuVar()) {
			return false // The variable shadows the device.
		}
		return r.collectAll(c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result())
	}
	return false
}

func (r *reads) collectAll(list ...ast.Expr) bool {
	for _, e := range list {
		if !r.collect(e) {
			return false
		}
	}
	return true
}

// isRead recognizes device.driver, device.allowMultipleAllocations, and device.attributes["domain"].name in
// all spellings, also with device.driver as the domain, and the same for capacity. It adds the attribute or
// capacity to the reads.
func (r *reads) isRead(e ast.Expr) bool {
	of, name, is := member(e)
	if !is {
		return false
	}
	if of.Kind() == ast.IdentKind {
		return isDevice(of.AsIdent()) && (name == "driver" || name == "allowMultipleAllocations")
	}
	of, domain, is := domainOf(of)
	if !is {
		return false
	}
	of, field, is := member(of)
	if !is || of.Kind() != ast.IdentKind || !isDevice(of.AsIdent()) {
		return false
	}
	if strings.Contains(domain, "/") || strings.Contains(name, "/") {
		return false // CEL decides where to split this name.
	}
	found := read{domain: domain, short: resourceapi.QualifiedName(name)}
	if domain != "" {
		found.name = resourceapi.QualifiedName(domain + "/" + name)
	}
	switch field {
	case "attributes":
		r.attributes = with(r.attributes, found)
	case "capacity":
		r.capacities = with(r.capacities, found)
	default:
		return false
	}
	return true
}

// with adds a read that is not in the list yet.
func with(list []read, r read) []read {
	if slices.Contains(list, r) {
		return list
	}
	return append(list, r)
}

// size returns the size in bytes, 0 for nil.
func (r *reads) size() int {
	if r == nil {
		return 0
	}
	size := int(unsafe.Sizeof(*r))
	for _, list := range [][]read{r.attributes, r.capacities} {
		size += (cap(list) - len(list)) * int(unsafe.Sizeof(read{}))
		for _, of := range list {
			size += int(unsafe.Sizeof(of)) + 2*len(of.name)
		}
	}
	return size
}

// domainOf is like member, but the name may also be device.driver; domain is "" then.
func domainOf(e ast.Expr) (of ast.Expr, domain string, is bool) {
	if of, domain, is = member(e); is {
		return of, domain, domain != ""
	}
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Index || len(e.AsCall().Args()) != 2 {
		return nil, "", false
	}
	args := e.AsCall().Args()
	device, name, is := member(args[1])
	return args[0], "", is && name == "driver" && device.Kind() == ast.IdentKind && isDevice(device.AsIdent())
}

// member recognizes of.name, has(of.name) and of["name"].
func member(e ast.Expr) (of ast.Expr, name string, is bool) {
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().Operand(), e.AsSelect().FieldName(), true
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != operators.Index || call.IsMemberFunction() || len(call.Args()) != 2 || call.Args()[1].Kind() != ast.LiteralKind {
			return nil, "", false
		}
		name, is = call.Args()[1].AsLiteral().Value().(string)
		return call.Args()[0], name, is
	}
	return nil, "", false
}
