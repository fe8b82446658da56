// Package memo caches what was found out about values that never change, for example which devices of a
// slice match an expression. All entries of a Memory share one bound in bytes, because users choose the
// questions and can ask any number of them.
//
// A Table holds the answers to one key for many subjects. The memory evicts whole tables, the least
// recently used first. Eviction loses nothing: every answer can be found out again.
package memo
