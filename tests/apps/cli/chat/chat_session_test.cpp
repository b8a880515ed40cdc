// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/chat/chat_session.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/files.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

Json turns_of(const ChatSession& session) {
  Json list = Json::array();
  const Json request = session.request("m");
  for (const Json& message : request["messages"]) list.push_back({message["role"], message["content"]});
  return list;
}

TEST(ChatSession, AsksWithTheWholeConversation) {
  ChatSession session;
  session.set_system("Be brief.");
  session.say("one");
  session.take_answer("two", "hm");
  session.say("three");
  EXPECT_EQ(turns_of(session),
            Json::parse(R"([["system", "Be brief."], ["user", "one"], ["assistant", "two"], ["user", "three"]])"));
  EXPECT_EQ(session.request("m")["messages"][2]["reasoning_content"], "hm");
  EXPECT_EQ(session.request("m")["model"], "m");
  session.undo_turn();
  EXPECT_EQ(turns_of(session).size(), 3u);
  session.command("/clear");
  EXPECT_EQ(turns_of(session), Json::array({Json::array({"system", "Be brief."})}));
}

TEST(ChatSession, SetsWhatARequestSays) {
  ChatSession session;
  session.command("/set temperature 0.5");
  session.command("/set  max_tokens   7 ");
  session.command("/set think false");
  const Json request = session.request("m");
  EXPECT_EQ(request["temperature"], 0.5);
  EXPECT_EQ(request["max_tokens"], 7);
  EXPECT_EQ(request["think"], false);
  session.command("/set temperature");
  EXPECT_FALSE(session.request("m").contains("temperature"));
  EXPECT_NE(session.command("/set").text.find("max_tokens"), std::string::npos);
  for (const char* wrong : {"/set heat 1", "/set temperature warm", "/set max_tokens 1.5", "/set think maybe", "/sing",
                            "/save", "/load nowhere.json", "/image nowhere.png", "/undo", "/again"})
    EXPECT_THROW(session.command(wrong), Error) << wrong;
  EXPECT_EQ(session.request("m")["max_tokens"], 7);
}

TEST(ChatSession, KnowsTheNamesOfGenerate) {
  ChatSession session;
  session.set("max_new_tokens", "5");
  EXPECT_EQ(session.settings(), Json({{"max_tokens", 5}}));
  session.command("/set max_new_tokens 6");
  EXPECT_EQ(session.request("m")["max_tokens"], 6);
  EXPECT_FALSE(session.request("m").contains("max_new_tokens"));
  session.command("/set max_new_tokens");
  EXPECT_FALSE(session.settings().contains("max_tokens"));
}

TEST(ChatSession, IsSavedAndLoaded) {
  const test::TemporaryFolder folder;
  const std::string file = (folder / "chat.json").string();
  ChatSession session;
  session.set_system("S");
  session.set("seed", "3");
  session.say("one");
  session.take_answer("two", "hm");
  session.command("/save " + file);
  ChatSession other;
  other.say("gone");
  other.command("/load " + file);
  EXPECT_EQ(other.request("m"), session.request("m"));
  // A plain list of messages is one, too; what is none changes nothing.
  write_file(folder / "list.json", R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])");
  other.command("/load " + (folder / "list.json").string());
  EXPECT_EQ(turns_of(other), Json::parse(R"([["user", "a"], ["assistant", "b"]])"));
  write_file(folder / "broken.json", R"({"messages": [{"role": "user"}]})");
  EXPECT_THROW(other.command("/load " + (folder / "broken.json").string()), Error);
  EXPECT_EQ(turns_of(other).size(), 2u);
}

TEST(ChatSession, TakesPicturesAndFilesWithTheNextTurn) {
  const test::TemporaryFolder folder;
  write_file(folder / "a.jpg", "\xff\xd8picture");
  write_file(folder / "notes.txt", "noted");
  ChatSession session;
  session.command("/image " + (folder / "a.jpg").string());
  session.command("/read " + (folder / "notes.txt").string());
  session.say("What?");
  const Json content = session.messages()[0]["content"];
  ASSERT_EQ(content.size(), 2u);
  EXPECT_EQ(content[0]["image_url"]["url"], "data:image/jpeg;base64,/9hwaWN0dXJl");
  EXPECT_EQ(content[1]["text"], "noted\nWhat?");
  // A turn that nothing answered leaves them for the next one.
  session.undo_turn();
  session.say("Again?");
  EXPECT_EQ(session.messages()[0]["content"][1]["text"], "noted\nAgain?");
  session.take_answer("x", "");
  session.say("plain");
  EXPECT_EQ(session.messages()[2]["content"], "plain");
}

TEST(ChatSession, AnswersAgainAndUndoes) {
  ChatSession session;
  session.say("one");
  session.take_answer("two", "");
  EXPECT_EQ(session.command("/again").next, ChatSession::Next::kAnswer);
  EXPECT_EQ(turns_of(session), Json::array({Json::array({"user", "one"})}));
  session.take_answer("three", "");
  session.command("/undo");
  EXPECT_TRUE(session.messages().empty());
  EXPECT_EQ(session.command(" /quit ").next, ChatSession::Next::kEnd);
}

}  // namespace
}  // namespace transom
