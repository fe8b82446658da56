package nodecache

// AnswerBytes is the memory of an answer without its places.
const AnswerBytes = answerBytes
