"""The scripted conversation through LangChain: `langchain-openai`, which sits on `openai`."""

import openai
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAI

from stack import BASE, ENDLESS, LONG, QUESTION, converse, full_house, kill_the_engine, nothing_runs, raises

# LangChain lists no models.
model = openai.OpenAI(base_url=BASE, api_key="unused").models.list().data[0].id


def chat(**options):
    options = {"model": model, "max_tokens": 24, "temperature": 0, "stream_usage": True} | options
    return ChatOpenAI(base_url=BASE, api_key="unused", **options)


def an_answer_is_whole():
    answer = chat(max_tokens=8).invoke(QUESTION)
    assert answer.content and answer.response_metadata["finish_reason"] == "length", answer
    assert answer.usage_metadata["output_tokens"] == 8, answer.usage_metadata


def a_stream_says_the_same():
    whole = chat().invoke(QUESTION)
    chunks = list(chat().stream(QUESTION))
    total = sum(chunks[1:], chunks[0])
    assert len(chunks) > 3 and total.content == whole.content, chunks
    assert total.usage_metadata["total_tokens"] == whole.usage_metadata["total_tokens"], total
    assert total.response_metadata["finish_reason"] == "length", total


def a_conversation_goes_on():
    messages = [SystemMessage("Be brief.")]
    for question in ["Hello.", "What did I say?"]:
        messages.append(HumanMessage(question))
        messages.append(chat().invoke(messages))
    assert all(it.content for it in messages if isinstance(it, AIMessage))


def a_stop_string_cuts():
    whole = chat().invoke(QUESTION).content
    stop = whole[7:12]
    assert chat().invoke(QUESTION, stop=[stop]).content == whole[: whole.find(stop)]


def a_batch_is_answered():
    answers = chat(max_retries=8).batch([QUESTION] * 4)
    assert len(answers) == 4 and len({it.content for it in answers}) == 1


def completions_are_served():
    answer = OpenAI(base_url=BASE, api_key="unused", model=model, max_tokens=8, temperature=0)
    assert answer.invoke("Once upon a time") == "".join(answer.stream("Once upon a time")) != ""


def errors_are_typed():
    with raises(openai.NotFoundError) as caught:
        chat(model="gpt-4").invoke(QUESTION)
    assert (caught.error.code, caught.error.param) == ("model_not_found", "model"), caught.error
    with raises(openai.BadRequestError) as caught:
        chat().invoke(ENDLESS)
    assert caught.error.code == "context_length_exceeded", caught.error
    with raises(openai.BadRequestError) as caught:
        chat(temperature=5).invoke(QUESTION)
    assert caught.error.param == "temperature", caught.error


def a_refusal_is_retried():
    with full_house():
        assert chat(max_tokens=4).invoke(QUESTION).content


def who_leaves_a_stream_frees_its_place():
    stream = chat(max_tokens=LONG).stream(QUESTION)
    for _, _ in zip(range(5), stream):
        pass
    stream.close()
    nothing_runs()


def an_engine_that_dies_is_an_error():
    finished = []
    with raises(openai.APIError):
        for number, chunk in enumerate(chat(max_tokens=LONG).stream(QUESTION)):
            finished += [chunk] if chunk.response_metadata.get("finish_reason") else []
            if number == 3:
                kill_the_engine()
    assert not finished, finished


converse(
    an_answer_is_whole,
    a_stream_says_the_same,
    a_conversation_goes_on,
    a_stop_string_cuts,
    a_batch_is_answered,
    completions_are_served,
    errors_are_typed,
    a_refusal_is_retried,
    who_leaves_a_stream_frees_its_place,
    an_engine_that_dies_is_an_error,
)
